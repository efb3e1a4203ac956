/*
 * The table of operations, in the order they run. A plan is this table with the inactive rows left out: the report,
 * the memory map and the execution all read it, so they cannot disagree.
 */
#include "s4/plan_object.h"

#define ENTRY(member) S4_TRANSFER_NONE, offsetof(s4_backend, member)
#define COPY(transfer) S4_TRANSFER_##transfer, 0
#define PHASE(phase) S4_PHASE_##phase, 0
#define BACKWARD(makes) S4_PHASE_BACKWARD, makes
#define BIT(buffer) (UINT64_C(1) << S4_BUFFER_##buffer)

static s4_place at(const s4_placement *p, s4_stage stage) { return p->stage[stage]; }
static int by_fft(const s4_shape *s) { return s->fft_length > 0; }
static int chunked(const s4_shape *s) { return s->chunk > 0; }
static int convolves(const s4_shape *s) { return by_fft(s) || chunked(s); }
static int has_kernel(const s4_shape *s) { return s->kernel_length > 0 && !chunked(s); }

#define WHEN(function, condition)                                        \
    static int function(const s4_shape *s, const s4_placement *p)        \
    {                                                                    \
        (void)s;                                                         \
        (void)p;                                                         \
        return condition;                                                \
    }
#define TRAINS (s->direction == S4_DIRECTION_TRAINING)
#define STEPS (s->direction == S4_DIRECTION_STEP)
#define PLACE_OF(stage) at(p, S4_STAGE_##stage)
#define ON_GPU(stage) (PLACE_OF(stage) == S4_PLACE_GPU)
#define APART(one, other) (PLACE_OF(one) != PLACE_OF(other))
#define STAGED(stage) (ON_GPU(stage) && s->tensors == S4_PLACE_CPU) /* samples come from the host, block by block */
/* Eigen-decompositions belong to the place of init; steps in eigenvectors of dA are set up there where the rest is not. */
#define EIGEN_APART (s->mode == S4_MODE_DPLR && s->step_mode == S4_STEP_DIAGONAL && APART(SETUP, INIT))
/* Whether something made by the set-up is read in another place. */
#define SYSTEM_TRAVELS \
    ((has_kernel(s) && APART(SETUP, KERNEL)) || (convolves(s) && APART(SETUP, CONVOLVE)) || \
     (STEPS && APART(SETUP, STEP)) || EIGEN_APART)
#define STEP_SYSTEM_TRAVELS ((s->states && APART(SETUP, CONVOLVE)) || (STEPS && APART(SETUP, STEP)))

WHEN(always, 1)
WHEN(when_raw_travels, ON_GPU(SETUP))
WHEN(when_read_out, s->mode == S4_MODE_DPLR && !TRAINS && !s->rate_parity)
WHEN(when_chunked, chunked(s))
WHEN(when_chunked_resident, chunked(s) && s->resident)
WHEN(when_chunked_again, chunked(s) && !s->resident)
WHEN(when_chunked_trains, chunked(s) && TRAINS)
WHEN(when_chunked_trains_on_cpu, chunked(s) && TRAINS && !ON_GPU(CONVOLVE))
WHEN(when_chunked_trains_on_gpu, chunked(s) && TRAINS && ON_GPU(CONVOLVE))
WHEN(when_chunked_trains_again, chunked(s) && TRAINS && !s->resident)
WHEN(when_stepping, (STEPS || s->states) && !EIGEN_APART)
WHEN(when_eigen, EIGEN_APART)
WHEN(when_eigen_travels, EIGEN_APART && APART(INIT, STEP))
WHEN(when_step, STEPS)
WHEN(when_step_staged, STEPS && STAGED(STEP))
WHEN(when_states, s->states && !chunked(s))
WHEN(when_states_staged, s->states && STAGED(CONVOLVE))
WHEN(when_system_travels, SYSTEM_TRAVELS)
WHEN(when_step_system_travels, STEP_SYSTEM_TRAVELS && !EIGEN_APART)
WHEN(when_kernel, s->direction == S4_DIRECTION_KERNEL)
WHEN(when_resident, by_fft(s) && s->resident)
WHEN(when_resident_moves, by_fft(s) && s->resident && APART(KERNEL, CONVOLVE))
WHEN(when_again, by_fft(s) && !s->resident)
WHEN(when_again_moves, by_fft(s) && !s->resident && APART(KERNEL, CONVOLVE))
WHEN(when_by_fft, by_fft(s))
WHEN(when_staged, convolves(s) && STAGED(CONVOLVE))
WHEN(when_trains, TRAINS)
WHEN(when_training, TRAINS && by_fft(s))
WHEN(when_training_again, TRAINS && by_fft(s) && !s->resident)
WHEN(when_training_again_moves, TRAINS && by_fft(s) && !s->resident && APART(KERNEL, CONVOLVE))
WHEN(when_training_staged, TRAINS && STAGED(CONVOLVE))
WHEN(when_training_moves, TRAINS && by_fft(s) && APART(KERNEL, CONVOLVE))
WHEN(when_states_train, TRAINS && by_fft(s) && s->states)
WHEN(when_states_train_staged, TRAINS && s->states && STAGED(CONVOLVE))
WHEN(when_states_train_move, TRAINS && by_fft(s) && s->states && APART(SETUP, CONVOLVE))
WHEN(when_gradients_travel, TRAINS && ((by_fft(s) && APART(SETUP, KERNEL)) || APART(SETUP, CONVOLVE)))
WHEN(when_raw_gradients_travel, TRAINS && STAGED(SETUP))

/* What operations of backward make. */
enum {
    KERNEL = S4_WANTED_KERNEL,
    GRADIENTS = S4_WANTED_GRADIENTS,
    DU = S4_WANTED_DU,
    STATE = S4_WANTED_STATE
};

#define MAKE_KERNEL S4_STAGE_KERNEL, ENTRY(kernel), \
    BIT(SYSTEM) | BIT(KERNEL_ROWS) | BIT(KERNEL_TERMS) | BIT(KERNEL_FFT_WORK) | BIT(KERNEL) | BIT(FLAGS)
#define MOVE_KERNEL S4_STAGE_KERNEL, COPY(MOVE), BIT(KERNEL)
#define MAKE_SPECTRUM S4_STAGE_CONVOLVE, ENTRY(spectrum), \
    BIT(KERNEL) | BIT(SPECTRUM) | BIT(ROWS_U) | BIT(ROWS_DY) | BIT(CONVOLVE_FFT_WORK)
#define MAKE_CHUNKS S4_STAGE_CONVOLVE, ENTRY(chunk_matrices), \
    BIT(SYSTEM) | BIT(CHUNK_SYSTEM) | BIT(CHUNK_SETUP) | BIT(FLAGS)
#define CHUNKS_BACK S4_STAGE_CONVOLVE, ENTRY(chunk_backward), \
    BIT(SYSTEM) | BIT(CHUNK_SYSTEM) | BIT(CHUNK_ROWS) | BIT(CHUNK_SUMS) | BIT(STEP_SYSTEM) | BIT(STATE_ROWS) | \
        BIT(SYSTEM_GRADIENT) | BIT(ROWS_U) | BIT(ROWS_DY) | BIT(BLOCK_U) | BIT(BLOCK_DY) | BIT(BLOCK_OUT) | \
        BIT(BLOCK_STATE) | BIT(BLOCK_DSTATE) | BIT(LENGTHS)
#define UP_U(stage) S4_STAGE_##stage, COPY(U), BIT(STAGE_U) | BIT(BLOCK_U)
#define UP_DY S4_STAGE_CONVOLVE, COPY(DY), BIT(STAGE_DY) | BIT(BLOCK_DY)
#define UP_STATE(stage) S4_STAGE_##stage, COPY(STATE_IN), BIT(BLOCK_STATE)
#define DOWN_Y(stage) S4_STAGE_##stage, COPY(Y), BIT(STAGE_OUT) | BIT(BLOCK_OUT)
#define DOWN_STATE(stage) S4_STAGE_##stage, COPY(STATE_OUT), BIT(BLOCK_STATE)

const s4_operation_row s4_operation_rows[] = {
    {"upload_raw", PHASE(REFRESH), S4_LOOP_ONCE, S4_STAGE_SETUP, COPY(RAW), BIT(RAW), when_raw_travels},
    {"transform", PHASE(REFRESH), S4_LOOP_ONCE, S4_STAGE_SETUP, ENTRY(transform),
     BIT(RAW) | BIT(SYSTEM) | BIT(FLAGS), always},
    {"read_out", PHASE(REFRESH), S4_LOOP_ONCE, S4_STAGE_SETUP, ENTRY(read_out),
     BIT(RAW) | BIT(SYSTEM) | BIT(SETUP_MATRICES) | BIT(FLAGS), when_read_out},
    {"step_system", PHASE(REFRESH), S4_LOOP_ONCE, S4_STAGE_SETUP, ENTRY(step_system),
     BIT(RAW) | BIT(SYSTEM) | BIT(SETUP_MATRICES) | BIT(STEP_SYSTEM) | BIT(FLAGS), when_stepping},
    {"move_system", PHASE(REFRESH), S4_LOOP_ONCE, S4_STAGE_SETUP, COPY(MOVE), BIT(SYSTEM), when_system_travels},
    {"step_system", PHASE(REFRESH), S4_LOOP_ONCE, S4_STAGE_INIT, ENTRY(step_system),
     BIT(SYSTEM) | BIT(SETUP_MATRICES) | BIT(STEP_SYSTEM), when_eigen},
    {"move_step_system", PHASE(REFRESH), S4_LOOP_ONCE, S4_STAGE_INIT, COPY(MOVE), BIT(STEP_SYSTEM), when_eigen_travels},
    {"move_step_system", PHASE(REFRESH), S4_LOOP_ONCE, S4_STAGE_SETUP, COPY(MOVE), BIT(STEP_SYSTEM),
     when_step_system_travels},
    {"kernel", PHASE(REFRESH), S4_LOOP_CHANNELS, MAKE_KERNEL, when_resident},
    {"move_kernel", PHASE(REFRESH), S4_LOOP_CHANNELS, MOVE_KERNEL, when_resident_moves},
    {"spectrum", PHASE(REFRESH), S4_LOOP_CHANNELS, MAKE_SPECTRUM, when_resident},
    {"chunk_matrices", PHASE(REFRESH), S4_LOOP_CHANNELS, MAKE_CHUNKS, when_chunked_resident},

    {"kernel", PHASE(KERNEL), S4_LOOP_CHANNELS, MAKE_KERNEL, when_kernel},
    {"download_kernel", PHASE(KERNEL), S4_LOOP_CHANNELS, S4_STAGE_KERNEL, COPY(KERNEL_OUT), BIT(KERNEL), when_kernel},

    {"upload_lengths", PHASE(FORWARD), S4_LOOP_ONCE, S4_STAGE_CONVOLVE, COPY(LENGTHS), BIT(LENGTHS), when_staged},
    {"kernel", PHASE(FORWARD), S4_LOOP_CHANNELS, MAKE_KERNEL, when_again},
    {"move_kernel", PHASE(FORWARD), S4_LOOP_CHANNELS, MOVE_KERNEL, when_again_moves},
    {"spectrum", PHASE(FORWARD), S4_LOOP_CHANNELS, MAKE_SPECTRUM, when_again},
    {"chunk_matrices", PHASE(FORWARD), S4_LOOP_CHANNELS, MAKE_CHUNKS, when_chunked_again},
    {"upload_u", PHASE(FORWARD), S4_LOOP_BATCH, UP_U(CONVOLVE), when_staged},
    {"upload_state", PHASE(FORWARD), S4_LOOP_BATCH, UP_STATE(CONVOLVE), when_states_staged},
    {"convolve", PHASE(FORWARD), S4_LOOP_BATCH, S4_STAGE_CONVOLVE, ENTRY(convolve),
     BIT(SYSTEM) | BIT(SPECTRUM) | BIT(ROWS_U) | BIT(ROWS_DY) | BIT(ROWS_STAGE) | BIT(CONVOLVE_FFT_WORK) |
         BIT(BLOCK_U) | BIT(BLOCK_OUT) | BIT(LENGTHS), when_by_fft},
    {"chunk_forward", PHASE(FORWARD), S4_LOOP_BATCH, S4_STAGE_CONVOLVE, ENTRY(chunk_forward),
     BIT(CHUNK_SYSTEM) | BIT(CHUNK_ROWS) | BIT(STEP_SYSTEM) | BIT(STEP_ROWS) | BIT(ROWS_U) | BIT(ROWS_DY) | BIT(BLOCK_U) |
         BIT(BLOCK_OUT) | BIT(BLOCK_STATE) | BIT(LENGTHS), when_chunked},
    {"states", PHASE(FORWARD), S4_LOOP_BATCH, S4_STAGE_CONVOLVE, ENTRY(states),
     BIT(STEP_SYSTEM) | BIT(STEP_ROWS) | BIT(BLOCK_U) | BIT(BLOCK_OUT) | BIT(BLOCK_STATE) | BIT(LENGTHS), when_states},
    {"download_y", PHASE(FORWARD), S4_LOOP_BATCH, DOWN_Y(CONVOLVE), when_staged},
    {"download_state", PHASE(FORWARD), S4_LOOP_BATCH, DOWN_STATE(CONVOLVE), when_states_staged},

    {"upload_lengths", BACKWARD(DU | GRADIENTS | STATE), S4_LOOP_ONCE, S4_STAGE_CONVOLVE, COPY(LENGTHS), BIT(LENGTHS),
     when_training_staged},
    {"kernel", BACKWARD(DU), S4_LOOP_CHANNELS, MAKE_KERNEL, when_training_again},
    {"move_kernel", BACKWARD(DU), S4_LOOP_CHANNELS, MOVE_KERNEL, when_training_again_moves},
    {"spectrum", BACKWARD(DU), S4_LOOP_CHANNELS, MAKE_SPECTRUM, when_training_again},
    {"chunk_matrices", BACKWARD(DU | GRADIENTS | STATE), S4_LOOP_CHANNELS, MAKE_CHUNKS, when_chunked_trains_again},
    {"chunk_backward", BACKWARD(DU | GRADIENTS | STATE), S4_LOOP_CHANNELS, CHUNKS_BACK, when_chunked_trains_on_cpu},
    {"upload_u", BACKWARD(GRADIENTS | STATE), S4_LOOP_BATCH, UP_U(CONVOLVE), when_training_staged},
    {"upload_dy", BACKWARD(DU | GRADIENTS | STATE), S4_LOOP_BATCH, UP_DY, when_training_staged},
    {"upload_state", BACKWARD(KERNEL | DU | STATE), S4_LOOP_BATCH, UP_STATE(CONVOLVE), when_states_train_staged},
    {"upload_dstate", BACKWARD(KERNEL | DU | STATE), S4_LOOP_BATCH, S4_STAGE_CONVOLVE, COPY(DSTATE_OUT), BIT(BLOCK_DSTATE),
     when_states_train_staged},
    {"convolve_backward", BACKWARD(DU | GRADIENTS), S4_LOOP_BATCH, S4_STAGE_CONVOLVE, ENTRY(convolve_backward),
     BIT(SYSTEM) | BIT(SPECTRUM) | BIT(ROWS_U) | BIT(ROWS_DY) | BIT(ROWS_STAGE) | BIT(CONVOLVE_FFT_WORK) | BIT(BLOCK_U) |
         BIT(BLOCK_DY) | BIT(BLOCK_OUT) | BIT(LENGTHS) | BIT(GRADIENT_SPECTRUM) | BIT(SYSTEM_GRADIENT), when_training},
    {"states_backward", BACKWARD(KERNEL | DU | STATE), S4_LOOP_BATCH, S4_STAGE_CONVOLVE, ENTRY(states_backward),
     BIT(SYSTEM) | BIT(STEP_SYSTEM) | BIT(STATE_ROWS) | BIT(STATE_SUMS) | BIT(BLOCK_U) | BIT(BLOCK_DY) | BIT(BLOCK_OUT) |
         BIT(BLOCK_STATE) | BIT(BLOCK_DSTATE) | BIT(LENGTHS), when_states_train},
    {"chunk_backward", BACKWARD(DU | GRADIENTS | STATE), S4_LOOP_BATCH, CHUNKS_BACK, when_chunked_trains_on_gpu},
    {"download_du", BACKWARD(DU), S4_LOOP_BATCH, S4_STAGE_CONVOLVE, COPY(DU), BIT(STAGE_OUT) | BIT(BLOCK_OUT),
     when_training_staged},
    {"download_dstate", BACKWARD(STATE), S4_LOOP_BATCH, S4_STAGE_CONVOLVE, COPY(DSTATE_IN), BIT(BLOCK_DSTATE),
     when_states_train_staged},
    {"correlate", BACKWARD(KERNEL), S4_LOOP_CHANNELS, S4_STAGE_CONVOLVE, ENTRY(correlate),
     BIT(GRADIENT_SPECTRUM) | BIT(KERNEL_GRADIENT) | BIT(ROWS_U) | BIT(ROWS_DY) | BIT(CONVOLVE_FFT_WORK), when_training},
    {"move_kernel_gradient", BACKWARD(KERNEL), S4_LOOP_CHANNELS, S4_STAGE_CONVOLVE, COPY(MOVE), BIT(KERNEL_GRADIENT),
     when_training_moves},
    {"kernel_backward", BACKWARD(KERNEL), S4_LOOP_CHANNELS, S4_STAGE_KERNEL, ENTRY(kernel_backward),
     BIT(SYSTEM) | BIT(KERNEL_ROWS) | BIT(KERNEL_TERMS) | BIT(KERNEL_ADJOINT) | BIT(KERNEL_FFT_WORK) |
         BIT(KERNEL_GRADIENT) | BIT(SYSTEM_GRADIENT), when_training},
    {"chunk_gradient", BACKWARD(KERNEL), S4_LOOP_CHANNELS, S4_STAGE_CONVOLVE, ENTRY(chunk_gradient),
     BIT(SYSTEM) | BIT(CHUNK_SUMS) | BIT(CHUNK_SETUP) | BIT(SYSTEM_GRADIENT) | BIT(FLAGS), when_chunked_trains},
    {"move_gradients", BACKWARD(GRADIENTS), S4_LOOP_ONCE, S4_STAGE_SETUP, COPY(GRADIENTS), BIT(SYSTEM_GRADIENT),
     when_gradients_travel},
    {"move_state_sums", BACKWARD(KERNEL), S4_LOOP_ONCE, S4_STAGE_CONVOLVE, COPY(MOVE), BIT(STATE_SUMS),
     when_states_train_move},
    {"state_gradients", BACKWARD(KERNEL), S4_LOOP_ONCE, S4_STAGE_SETUP, ENTRY(state_gradients),
     BIT(SYSTEM) | BIT(STEP_SYSTEM) | BIT(SETUP_MATRICES) | BIT(STATE_ROWS) | BIT(STATE_SUMS) |
         BIT(SYSTEM_GRADIENT) | BIT(FLAGS),
     when_states_train},
    {"chain", BACKWARD(GRADIENTS), S4_LOOP_ONCE, S4_STAGE_SETUP, ENTRY(chain),
     BIT(RAW) | BIT(SYSTEM) | BIT(SYSTEM_GRADIENT) | BIT(RAW_GRADIENT), when_trains},
    {"download_gradients", BACKWARD(GRADIENTS), S4_LOOP_ONCE, S4_STAGE_SETUP, COPY(RAW_GRADIENTS),
     BIT(RAW_GRADIENT) | BIT(STAGE_GRADIENT),
     when_raw_gradients_travel},

    {"upload_u", PHASE(STEP), S4_LOOP_BATCH, UP_U(STEP), when_step_staged},
    {"upload_state", PHASE(STEP), S4_LOOP_BATCH, UP_STATE(STEP), when_step_staged},
    {"step", PHASE(STEP), S4_LOOP_BATCH, S4_STAGE_STEP, ENTRY(step),
     BIT(SYSTEM) | BIT(STEP_SYSTEM) | BIT(STEP_ROWS) | BIT(BLOCK_U) | BIT(BLOCK_OUT) | BIT(BLOCK_STATE), when_step},
    {"download_y", PHASE(STEP), S4_LOOP_BATCH, DOWN_Y(STEP), when_step_staged},
    {"download_state", PHASE(STEP), S4_LOOP_BATCH, DOWN_STATE(STEP), when_step_staged},
};
const int s4_operation_row_count = (int)(sizeof s4_operation_rows / sizeof s4_operation_rows[0]);

static const unsigned wanted_by[S4_PARAMETER_COUNT] = {
    [S4_PARAMETER_INV_DT] = S4_WANTED_SYSTEM, [S4_PARAMETER_A_REAL] = S4_WANTED_SYSTEM,
    [S4_PARAMETER_A_IMAG] = S4_WANTED_SYSTEM, [S4_PARAMETER_B] = S4_WANTED_SYSTEM,
    [S4_PARAMETER_P] = S4_WANTED_SYSTEM,      [S4_PARAMETER_C] = S4_WANTED_C,
    [S4_PARAMETER_D] = S4_WANTED_D,
};

unsigned s4_wanted_by(unsigned parameters, int64_t rank)
{
    unsigned wanted = 0;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        if ((parameters >> p & 1) && (p != S4_PARAMETER_P || rank)) wanted |= wanted_by[p]; /* P of rank 0 is empty */
    return wanted;
}

int s4_operation_wanted(const s4_operation_row *row, unsigned wanted) { return !row->makes || (row->makes & wanted); }

static int is_between_places(const s4_operation_row *row)
{
    return row->transfer != S4_TRANSFER_NONE && row->transfer != S4_TRANSFER_KERNEL_OUT;
}

s4_place s4_operation_place(const s4_operation_row *row, const s4_placement *placement)
{
    return is_between_places(row) ? S4_PLACE_GPU : placement->stage[row->stage];
}

uint64_t s4_operation_uses(const s4_operation_row *row, const s4_placement *placement, s4_place place)
{
    return is_between_places(row) || s4_operation_place(row, placement) == place ? row->uses : 0;
}

s4_stage s4_gradient_stage(const s4_shape *s) { return chunked(s) ? S4_STAGE_CONVOLVE : S4_STAGE_KERNEL; }

s4_place s4_operation_towards(const s4_operation_row *row, const s4_placement *placement)
{
    return placement->stage[row->stage] == S4_PLACE_GPU ? S4_PLACE_CPU : S4_PLACE_GPU;
}

s4_buffer s4_operation_moved(const s4_operation_row *row)
{
    int buffer = 0;
    while (!(row->uses >> buffer & 1)) buffer++;
    return (s4_buffer)buffer;
}

void s4_operation_moves(const s4_operation_row *row, const s4_shape *s, const s4_placement *placement, int64_t batch,
                        int64_t length, int64_t *to_device, int64_t *to_host)
{
    int64_t dtype = s->dtype == S4_F32 ? 4 : 8;
    int64_t samples = dtype * batch * s->d_model * length, states = 16 * batch * s->d_model * s->modes;
    int64_t skips = 8 * s->d_model * s->channels, rest = 8 * s4_system_gradient_count(s) - skips;
    int64_t up = 0, down = 0;
    switch (row->transfer) {
    case S4_TRANSFER_NONE: break;
    case S4_TRANSFER_MOVE: {
        int64_t bytes = s4_buffer_moved(s4_operation_moved(row), s, s->d_model);
        *(s4_operation_towards(row, placement) == S4_PLACE_GPU ? &up : &down) = bytes;
        break;
    }
    case S4_TRANSFER_RAW: /* chunks train plain C itself, beside which none is kept */
        up = 8 * s4_raw_offset(s, chunked(s) && TRAINS ? S4_PARAMETER_COUNT : S4_PARAMETER_COUNT + 1);
        break;
    case S4_TRANSFER_KERNEL_OUT:
        if (placement->stage[row->stage] == S4_PLACE_GPU) down = dtype * s->kernels * s->d_model * s->kernel_length;
        break;
    case S4_TRANSFER_LENGTHS: break; /* 8 bytes a row, of calls that give them */
    case S4_TRANSFER_U: up = samples; break;
    case S4_TRANSFER_DY: up = samples * s->channels; break;
    case S4_TRANSFER_Y: down = samples * s->channels; break;
    case S4_TRANSFER_DU: down = samples; break;
    case S4_TRANSFER_STATE_IN:
    case S4_TRANSFER_DSTATE_OUT: up = states; break;
    case S4_TRANSFER_STATE_OUT:
    case S4_TRANSFER_DSTATE_IN: down = states; break;
    case S4_TRANSFER_GRADIENTS: {
        int64_t *moved = placement->stage[S4_STAGE_SETUP] == S4_PLACE_GPU ? &up : &down;
        if (placement->stage[s4_gradient_stage(s)] != placement->stage[S4_STAGE_SETUP] && (s->wanted & S4_WANTED_KERNEL))
            *moved += rest;
        if (placement->stage[S4_STAGE_CONVOLVE] != placement->stage[S4_STAGE_SETUP] && (s->wanted & S4_WANTED_D))
            *moved += skips;
        break;
    }
    case S4_TRANSFER_RAW_GRADIENTS:
        for (int parameter = 0; parameter < S4_PARAMETER_COUNT; parameter++)
            if (s->trained >> parameter & 1)
                down += 8 * (s4_raw_offset(s, parameter + 1) - s4_raw_offset(s, parameter));
        break;
    }
    *to_device = up;
    *to_host = down;
}
