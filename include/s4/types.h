/*
 * Enumerations shared by all objects, with their names in text (command line, files, JSON).
 *
 * Complex data is interleaved (re, im); no C99 complex type appears in a public header. Dimensions are int64_t.
 * Options structs begin with `size_t struct_size`, which S4_INIT sets: a field that the library knows and the
 * caller's struct is too short to hold is taken as 0, its default.
 */
#ifndef S4_TYPES_H
#define S4_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "export.h"
#include "status.h"

S4_BEGIN_DECLS

/* Initialises an options struct: all zero, struct_size set. `s4_problem problem; S4_INIT(&problem);` */
#define S4_INIT(pointer) (memset((pointer), 0, sizeof *(pointer)), (void)((pointer)->struct_size = sizeof *(pointer)))

/* dtype of u, y and of the transforms and products over the sequence. What depends on parameters only is double. */
typedef enum s4_dtype { S4_F32 = 0, S4_F64 = 1, S4_I64 = 2 /* files only */ } s4_dtype;

typedef enum s4_place { S4_PLACE_CPU = 0, S4_PLACE_GPU = 1, S4_PLACE_AUTO = 2 } s4_place;
#define S4_PLACE_COUNT 2

/* What a layer does, cut where the place may change. */
typedef enum s4_stage {
    S4_STAGE_INIT = 0,     /* eigenvectors, of initialisation and of steps in diagonal mode: always on the host */
    S4_STAGE_SETUP = 1,    /* transforms, dA, powers, C~, the chain back to raw parameters */
    S4_STAGE_KERNEL = 2,   /* Cauchy sums, Woodbury, inverse FFT; their gradients */
    S4_STAGE_CONVOLVE = 3, /* spectra, convolution, correlation */
    S4_STAGE_STEP = 4,     /* recurrence, states */
    S4_STAGE_EMBED = 5     /* embedding tables */
} s4_stage;
#define S4_STAGE_COUNT 6

typedef enum s4_mode { S4_MODE_DPLR = 0, S4_MODE_DIAG = 1 } s4_mode;
typedef enum s4_direction {
    S4_DIRECTION_KERNEL = 0,   /* the kernel itself */
    S4_DIRECTION_FORWARD = 1,  /* convolution */
    S4_DIRECTION_TRAINING = 2, /* convolution and gradients */
    S4_DIRECTION_STEP = 3      /* recurrence */
} s4_direction;
typedef enum s4_algorithm { S4_ALGORITHM_AUTO = 0, S4_ALGORITHM_FFT = 1, S4_ALGORITHM_CHUNKED = 2 } s4_algorithm;
typedef enum s4_step_mode { S4_STEP_LINEAR = 0, S4_STEP_DENSE = 1, S4_STEP_DIAGONAL = 2 } s4_step_mode;
/* DPLR layers are bilinear; diagonal ones any. S4_DSS is a kernel only: it has no recurrence, and depends on L. */
typedef enum s4_discretisation { S4_BILINEAR = 0, S4_ZOH = 1, S4_DSS = 2 } s4_discretisation;

/* Order of dense u and y: (batch, channel, time) or (batch, time, channel). */
typedef enum s4_layout { S4_LAYOUT_BHL = 0, S4_LAYOUT_BLH = 1 } s4_layout;

/* Transforms from raw to effective parameters. RELU is max(0, x) + 1e-4, with slope 0 at x <= 0. */
typedef enum s4_transform {
    S4_TRANSFORM_NONE = 0,
    S4_TRANSFORM_EXP = 1,
    S4_TRANSFORM_RELU = 2,
    S4_TRANSFORM_SIGMOID = 3,
    S4_TRANSFORM_SOFTPLUS = 4
} s4_transform;

/* Names: "f32", "gpu", "convolve", "training", "fft", "linear", "softplus" ...; "?" for a value out of range. */
S4_API const char *s4_dtype_name(s4_dtype dtype);
S4_API const char *s4_place_name(s4_place place);
S4_API const char *s4_stage_name(s4_stage stage);
S4_API const char *s4_mode_name(s4_mode mode);
S4_API const char *s4_direction_name(s4_direction direction);
S4_API const char *s4_algorithm_name(s4_algorithm algorithm);
S4_API const char *s4_step_mode_name(s4_step_mode mode);
S4_API const char *s4_transform_name(s4_transform transform);
S4_API const char *s4_discretisation_name(s4_discretisation discretisation);
S4_API const char *s4_layout_name(s4_layout layout);

/* The way back; S4_ERROR_ARGUMENT, naming the choices, for any other text. */
S4_API s4_status s4_dtype_parse(const char *text, s4_dtype *dtype);
S4_API s4_status s4_mode_parse(const char *text, s4_mode *mode);
S4_API s4_status s4_direction_parse(const char *text, s4_direction *direction);
S4_API s4_status s4_algorithm_parse(const char *text, s4_algorithm *algorithm);
S4_API s4_status s4_step_mode_parse(const char *text, s4_step_mode *mode);
S4_API s4_status s4_transform_parse(const char *text, s4_transform *transform);
S4_API s4_status s4_discretisation_parse(const char *text, s4_discretisation *discretisation);
S4_API s4_status s4_layout_parse(const char *text, s4_layout *layout);

/* Bytes of one element; 0 for a value out of range. */
S4_API size_t s4_dtype_size(s4_dtype dtype);

/* Library version "major.minor.patch" and how it was built (compiler, architecture). */
S4_API const char *s4_version(void);
S4_API const char *s4_build(void);

S4_END_DECLS
#endif
