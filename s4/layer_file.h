/* What reading and writing layers share: the names of tensors, and the settings that are no tensors. */
#ifndef S4_LAYER_FILE_H
#define S4_LAYER_FILE_H

#include "s4/io.h"
#include "s4/layer.h"

#define S4_LAYER_PREFIX "layer."

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* What it means when a tensor is not there. */
typedef enum s4_absent { S4_ABSENT_ERROR, S4_ABSENT_DIAGONAL, S4_ABSENT_ZEROS, S4_ABSENT_ONES } s4_absent;

/*
 * The names that one kind of checkpoint gives to the tensors of a layer. A full name is prefix, folder, name; the skip
 * has no folder. Shapes in letters: H d_model, S n_ssm, n modes, R rank, K kernels, M channels; digits stand for
 * themselves; alternatives, each of another rank or with other digits, have '|' between them.
 */
typedef struct s4_layer_names {
    const char *folder;
    const char *sign; /* a layer is of this kind if this tensor is there */
    struct s4_layer_tensor {
        const char *name; /* NULL: never there */
        const char *shape;
        s4_absent absent;
    } tensor[S4_PARAMETER_COUNT];
    const char *length; /* tensor with the length that C belongs to; NULL: C is plain */
    int imag_negative;  /* A = ... + i A_imag there, - i A_imag here */
    int relu_bare;      /* relu is max(0, x) there, max(0, x) + 1e-4 here */
    unsigned fixed;     /* bits of settings that have their default in such files */
} s4_layer_names;

extern const s4_layer_names s4_layer_name_list[];
extern const int s4_layer_name_count;

/* ---- settings ---------------------------------------------------------------------------------------------------- */

typedef enum s4_setting {
    S4_SETTING_MODE,
    S4_SETTING_DISC,
    S4_SETTING_BIDIRECTIONAL,
    S4_SETTING_BANDLIMIT,
    S4_SETTING_DT_TRANSFORM,
    S4_SETTING_REAL_TRANSFORM,
    S4_SETTING_IMAG_TRANSFORM,
    S4_SETTING_DT_UNTIED, /* in files only, where shapes do not tell: one mode */
    S4_SETTING_COUNT
} s4_setting;

typedef struct s4_layer_settings {
    s4_layer_options options;       /* fields of settings; those that nobody gave have their default (disc: bilinear) */
    unsigned in_file, in_overrides; /* bit s: setting s was given there. One place each: overrides win */
} s4_layer_settings;

/* S4_ERROR_ARGUMENT names key, value and choices. `overrides` may be NULL. */
s4_status s4_layer_settings_override(const char *overrides, s4_layer_settings *settings);
/* Takes from the file's metadata what is not overridden; S4_ERROR_FORMAT. */
s4_status s4_layer_settings_read(const char *path, const s4_tensors *file, s4_layer_settings *settings);
/* "disc", and the text of its value (in `text` if it is a number) as the metadata has it. */
#define S4_SETTING_TEXT 32
const char *s4_setting_key(s4_setting setting);
const char *s4_setting_value(s4_setting setting, const s4_layer_options *options, char text[S4_SETTING_TEXT]);

#endif
