/*
 * Inside of s4_plan: the problem with its defaults, the shape backends see, the operations in the order they run, and
 * the memory map.
 */
#ifndef S4_PLAN_OBJECT_H
#define S4_PLAN_OBJECT_H

#include "s4/backend.h"
#include "s4/plan.h"

/* ---- operations ---- */

typedef enum s4_phase {
    S4_PHASE_REFRESH,
    S4_PHASE_KERNEL,
    S4_PHASE_FORWARD,
    S4_PHASE_BACKWARD,
    S4_PHASE_STEP
} s4_phase;

/* How often an operation runs: levels of the loops over blocks. */
typedef enum s4_loop { S4_LOOP_ONCE = 0, S4_LOOP_CHANNELS = 1, S4_LOOP_BATCH = 2 } s4_loop;

/* Copies between places, done by the core; every other operation is an entry of a backend's table. */
typedef enum s4_transfer {
    S4_TRANSFER_NONE,
    S4_TRANSFER_MOVE,         /* the one buffer of `uses`, from the place of the row's stage to the other */
    S4_TRANSFER_RAW,          /* raw parameters to RAW */
    S4_TRANSFER_KERNEL_OUT,   /* KERNEL to the caller */
    S4_TRANSFER_LENGTHS,      /* lengths to LENGTHS */
    S4_TRANSFER_U,            /* u through STAGE_U to BLOCK_U */
    S4_TRANSFER_DY,           /* dy through STAGE_DY to BLOCK_DY */
    S4_TRANSFER_Y,            /* BLOCK_OUT through STAGE_OUT to y */
    S4_TRANSFER_DU,           /* BLOCK_OUT through STAGE_OUT to du */
    S4_TRANSFER_STATE_IN,     /* state_in to BLOCK_STATE */
    S4_TRANSFER_STATE_OUT,    /* BLOCK_STATE to state_out */
    S4_TRANSFER_DSTATE_OUT,   /* dstate_out to BLOCK_DSTATE */
    S4_TRANSFER_DSTATE_IN,    /* BLOCK_DSTATE to dstate_in */
    S4_TRANSFER_GRADIENTS,    /* SYSTEM_GRADIENT, each part from where it was made, to the set-up's place */
    S4_TRANSFER_RAW_GRADIENTS /* RAW_GRADIENT to the caller's gradients */
} s4_transfer;

/* What backward is asked for besides s4_wanted. */
typedef enum s4_wanted_too {
    S4_WANTED_DU = 8,    /* du */
    S4_WANTED_STATE = 16 /* dstate_in */
} s4_wanted_too;
#define S4_WANTED_GRADIENTS (S4_WANTED_D | S4_WANTED_KERNEL) /* of parameters */

typedef struct s4_operation_row {
    const char *name;
    s4_phase phase;
    unsigned makes; /* backward: it runs if one of these bits is wanted; other phases: 0, always */
    s4_loop loop;
    s4_stage stage;
    s4_transfer transfer;
    size_t entry;  /* offset of the s4_operation in s4_backend, where transfer is NONE */
    uint64_t uses; /* bits of s4_buffer: at the place of its stage; transfers: see s4_operation_uses */
    int (*active)(const s4_shape *shape, const s4_placement *placement);
} s4_operation_row;

extern const s4_operation_row s4_operation_rows[];
extern const int s4_operation_row_count;

/* Bits of s4_wanted that gradients of these parameters (bits 1 << s4_parameter) need. */
unsigned s4_wanted_by(unsigned parameters, int64_t rank);
int s4_operation_wanted(const s4_operation_row *row, unsigned wanted);
/* The place that a row runs at: that of its stage; a copy between places is the device's. */
s4_place s4_operation_place(const s4_operation_row *row, const s4_placement *placement);
/* Buffers of `place` that a row reads or writes. */
uint64_t s4_operation_uses(const s4_operation_row *row, const s4_placement *placement, s4_place place);
/* Bytes that all runs of a row move to the device and to the host, in one pass over all channels, `batch` rows and
 * `length` samples. */
void s4_operation_moves(const s4_operation_row *row, const s4_shape *shape, const s4_placement *placement,
                        int64_t batch, int64_t length, int64_t *to_device, int64_t *to_host);
/* The stage that makes gradients of the effective parameters, all but that of D. */
s4_stage s4_gradient_stage(const s4_shape *shape);
/* The place that a MOVE goes to. */
s4_place s4_operation_towards(const s4_operation_row *row, const s4_placement *placement);
/* The buffer of a MOVE. */
s4_buffer s4_operation_moved(const s4_operation_row *row);

/* ---- buffers ---- */

const char *s4_buffer_name(s4_buffer buffer);
int64_t s4_buffer_bytes(s4_buffer buffer, const s4_shape *shape, s4_place place);
/* Derived at refresh and read later: lives until the end. */
int s4_buffer_persists(s4_buffer buffer, const s4_shape *shape);
/* On its way between places while other operations run: lives through all of its loops. */
int s4_buffer_travels(s4_buffer buffer);
/* Bytes of a buffer that MOVE copies for a block of `channels`. */
int64_t s4_buffer_moved(s4_buffer buffer, const s4_shape *shape, int64_t channels);

/* ---- memory map ---- */

#define S4_OPERATIONS_MAX 56
#define S4_BUFFERS_MAX (S4_BUFFER_COUNT * S4_PLACE_COUNT)

typedef struct s4_map_buffer {
    s4_buffer buffer;
    s4_place place;
    int64_t bytes, offset;
    int first, last; /* indices into the plan's operations */
} s4_map_buffer;

typedef struct s4_map {
    int operation_count;
    const s4_operation_row *operation[S4_OPERATIONS_MAX];
    int buffer_count;
    s4_map_buffer buffer[S4_BUFFERS_MAX];
    int64_t peak[S4_PLACE_COUNT];
    int64_t staging; /* bytes of the host's peak that are pinned */
} s4_map;

/* Fills the map for a shape: active operations, lifetimes, offsets. */
void s4_map_make(const s4_shape *shape, const s4_placement *placement, s4_map *map);

/* ---- the plan ---- */

struct s4_plan {
    s4_problem problem;
    s4_shape shape;
    s4_map map;
    s4_plan_info info;
    uint64_t id;
    s4_context *context; /* NULL until prepared */
    int used[S4_PLACE_COUNT];
    s4_device *device[S4_PLACE_COUNT];
    const s4_backend *backend[S4_PLACE_COUNT];
    void *prepared[S4_PLACE_COUNT];
};

/* s4/problem.c: checks a problem, fills its defaults and the shape (all but blocks). */
s4_status s4_problem_check(s4_problem *problem, s4_shape *shape);
/* s4/fft_length.c */
int64_t s4_fft_length(int64_t at_least); /* smallest even 2^k, 3*2^k, 5*2^k */
int s4_fft_smooth(int64_t length);       /* no prime factor above 7 */

#endif
