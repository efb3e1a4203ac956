/*
 * The table of operations, in the order they run. A plan is this table with the inactive rows left out: the report,
 * the memory map and the execution all read it, so they cannot disagree.
 */
#include "s4/plan_object.h"

#define ENTRY(member) S4_TRANSFER_NONE, offsetof(s4_backend, member)
#define COPY(transfer) S4_TRANSFER_##transfer, 0
#define BIT(buffer) (1u << S4_BUFFER_##buffer)

static s4_place at(const s4_placement *p, s4_stage stage) { return p->stage[stage]; }
static int convolves(const s4_shape *s) { return s->fft_length > 0; }
static int has_kernel(const s4_shape *s) { return s->kernel_length > 0; }

#define WHEN(function, condition)                                        \
    static int function(const s4_shape *s, const s4_placement *p)        \
    {                                                                    \
        (void)s;                                                         \
        (void)p;                                                         \
        return condition;                                                \
    }
#define TRAINS (s->direction == S4_DIRECTION_TRAINING)
#define STEPS (s->direction == S4_DIRECTION_STEP)
#define KERNEL_ON_GPU (at(p, S4_STAGE_KERNEL) == S4_PLACE_GPU)
#define CONVOLVE_ON_GPU (at(p, S4_STAGE_CONVOLVE) == S4_PLACE_GPU)
#define SETUP_ON_CPU (at(p, S4_STAGE_SETUP) == S4_PLACE_CPU)
#define MOVES (KERNEL_ON_GPU != CONVOLVE_ON_GPU)

WHEN(always, 1)
WHEN(when_read_out, s->mode == S4_MODE_DPLR && !TRAINS && !s->rate_parity)
WHEN(when_stepping, STEPS || s->states)
WHEN(when_step, STEPS)
WHEN(when_states, s->states)
WHEN(when_system_travels, SETUP_ON_CPU && ((has_kernel(s) && KERNEL_ON_GPU) || (convolves(s) && CONVOLVE_ON_GPU)))
WHEN(when_kernel, s->direction == S4_DIRECTION_KERNEL)
WHEN(when_resident, convolves(s) && s->resident)
WHEN(when_resident_moves, convolves(s) && s->resident && MOVES)
WHEN(when_again, convolves(s) && !s->resident)
WHEN(when_again_moves, convolves(s) && !s->resident && MOVES)
WHEN(when_convolves, convolves(s))
WHEN(when_staged, convolves(s) && CONVOLVE_ON_GPU)
WHEN(when_training, TRAINS)
WHEN(when_training_again, TRAINS && !s->resident)
WHEN(when_training_again_moves, TRAINS && !s->resident && MOVES)
WHEN(when_training_staged, TRAINS && CONVOLVE_ON_GPU)
WHEN(when_training_moves, TRAINS && MOVES)
WHEN(when_states_train, TRAINS && s->states)
WHEN(when_gradients_travel, TRAINS && SETUP_ON_CPU && (KERNEL_ON_GPU || CONVOLVE_ON_GPU))

#define MAKE_KERNEL S4_STAGE_KERNEL, ENTRY(kernel), \
    BIT(SYSTEM) | BIT(KERNEL_ROWS) | BIT(KERNEL_TERMS) | BIT(KERNEL_FFT_WORK) | BIT(KERNEL)
#define MOVE_KERNEL S4_STAGE_CONVOLVE, COPY(KERNEL), BIT(KERNEL)
#define MAKE_SPECTRUM S4_STAGE_CONVOLVE, ENTRY(spectrum), \
    BIT(KERNEL) | BIT(SPECTRUM) | BIT(ROWS_U) | BIT(CONVOLVE_FFT_WORK)

const s4_operation_row s4_operation_rows[] = {
    {"transform", S4_PHASE_REFRESH, S4_LOOP_ONCE, S4_STAGE_SETUP, ENTRY(transform), BIT(SYSTEM), always},
    {"read_out", S4_PHASE_REFRESH, S4_LOOP_ONCE, S4_STAGE_SETUP, ENTRY(read_out), BIT(SYSTEM) | BIT(SETUP_MATRICES),
     when_read_out},
    {"step_system", S4_PHASE_REFRESH, S4_LOOP_ONCE, S4_STAGE_SETUP, ENTRY(step_system),
     BIT(SYSTEM) | BIT(SETUP_MATRICES) | BIT(STEP_SYSTEM), when_stepping},
    {"upload_system", S4_PHASE_REFRESH, S4_LOOP_ONCE, S4_STAGE_SETUP, COPY(SYSTEM), BIT(SYSTEM), when_system_travels},
    {"kernel", S4_PHASE_REFRESH, S4_LOOP_CHANNELS, MAKE_KERNEL, when_resident},
    {"move_kernel", S4_PHASE_REFRESH, S4_LOOP_CHANNELS, MOVE_KERNEL, when_resident_moves},
    {"spectrum", S4_PHASE_REFRESH, S4_LOOP_CHANNELS, MAKE_SPECTRUM, when_resident},

    {"kernel", S4_PHASE_KERNEL, S4_LOOP_CHANNELS, MAKE_KERNEL, when_kernel},
    {"download_kernel", S4_PHASE_KERNEL, S4_LOOP_CHANNELS, S4_STAGE_KERNEL, COPY(KERNEL_OUT), BIT(KERNEL), when_kernel},

    {"kernel", S4_PHASE_FORWARD, S4_LOOP_CHANNELS, MAKE_KERNEL, when_again},
    {"move_kernel", S4_PHASE_FORWARD, S4_LOOP_CHANNELS, MOVE_KERNEL, when_again_moves},
    {"spectrum", S4_PHASE_FORWARD, S4_LOOP_CHANNELS, MAKE_SPECTRUM, when_again},
    {"upload_u", S4_PHASE_FORWARD, S4_LOOP_BATCH, S4_STAGE_CONVOLVE, COPY(U), BIT(BLOCK_U), when_staged},
    {"convolve", S4_PHASE_FORWARD, S4_LOOP_BATCH, S4_STAGE_CONVOLVE, ENTRY(convolve),
     BIT(SYSTEM) | BIT(SPECTRUM) | BIT(ROWS_U) | BIT(ROWS_STAGE) | BIT(CONVOLVE_FFT_WORK) | BIT(BLOCK_U),
     when_convolves},
    {"download_y", S4_PHASE_FORWARD, S4_LOOP_BATCH, S4_STAGE_CONVOLVE, COPY(Y), BIT(BLOCK_U), when_staged},
    {"states", S4_PHASE_FORWARD, S4_LOOP_ONCE, S4_STAGE_STEP, ENTRY(states), BIT(STEP_SYSTEM) | BIT(STEP_ROWS),
     when_states},

    {"kernel", S4_PHASE_BACKWARD, S4_LOOP_CHANNELS, MAKE_KERNEL, when_training_again},
    {"move_kernel", S4_PHASE_BACKWARD, S4_LOOP_CHANNELS, MOVE_KERNEL, when_training_again_moves},
    {"spectrum", S4_PHASE_BACKWARD, S4_LOOP_CHANNELS, MAKE_SPECTRUM, when_training_again},
    {"upload_u", S4_PHASE_BACKWARD, S4_LOOP_BATCH, S4_STAGE_CONVOLVE, COPY(U), BIT(BLOCK_U), when_training_staged},
    {"upload_dy", S4_PHASE_BACKWARD, S4_LOOP_BATCH, S4_STAGE_CONVOLVE, COPY(DY), BIT(BLOCK_DY), when_training_staged},
    {"convolve_backward", S4_PHASE_BACKWARD, S4_LOOP_BATCH, S4_STAGE_CONVOLVE, ENTRY(convolve_backward),
     BIT(SYSTEM) | BIT(SPECTRUM) | BIT(ROWS_U) | BIT(ROWS_DY) | BIT(CONVOLVE_FFT_WORK) | BIT(BLOCK_U) | BIT(BLOCK_DY) |
         BIT(ROWS_STAGE) | BIT(GRADIENT_SPECTRUM) | BIT(SYSTEM_GRADIENT), when_training},
    {"download_du", S4_PHASE_BACKWARD, S4_LOOP_BATCH, S4_STAGE_CONVOLVE, COPY(DU), BIT(BLOCK_DY), when_training_staged},
    {"correlate", S4_PHASE_BACKWARD, S4_LOOP_CHANNELS, S4_STAGE_CONVOLVE, ENTRY(correlate),
     BIT(GRADIENT_SPECTRUM) | BIT(KERNEL_GRADIENT) | BIT(ROWS_U) | BIT(CONVOLVE_FFT_WORK), when_training},
    {"move_kernel_gradient", S4_PHASE_BACKWARD, S4_LOOP_CHANNELS, S4_STAGE_KERNEL, COPY(KERNEL_GRADIENT),
     BIT(KERNEL_GRADIENT), when_training_moves},
    {"kernel_backward", S4_PHASE_BACKWARD, S4_LOOP_CHANNELS, S4_STAGE_KERNEL, ENTRY(kernel_backward),
     BIT(SYSTEM) | BIT(KERNEL_ROWS) | BIT(KERNEL_TERMS) | BIT(KERNEL_ADJOINT) | BIT(KERNEL_FFT_WORK) |
         BIT(KERNEL_GRADIENT) | BIT(SYSTEM_GRADIENT), when_training},
    {"download_gradients", S4_PHASE_BACKWARD, S4_LOOP_ONCE, S4_STAGE_SETUP, COPY(GRADIENTS), BIT(SYSTEM_GRADIENT),
     when_gradients_travel},
    {"states_backward", S4_PHASE_BACKWARD, S4_LOOP_ONCE, S4_STAGE_STEP, ENTRY(states_backward),
     BIT(SYSTEM) | BIT(STEP_SYSTEM) | BIT(SETUP_MATRICES) | BIT(STATE_ROWS) | BIT(SYSTEM_GRADIENT), when_states_train},
    {"chain", S4_PHASE_BACKWARD, S4_LOOP_ONCE, S4_STAGE_SETUP, ENTRY(chain), BIT(SYSTEM) | BIT(SYSTEM_GRADIENT),
     when_training},

    {"step", S4_PHASE_STEP, S4_LOOP_ONCE, S4_STAGE_STEP, ENTRY(step),
     BIT(SYSTEM) | BIT(STEP_SYSTEM) | BIT(STEP_ROWS), when_step},
};
const int s4_operation_row_count = (int)(sizeof s4_operation_rows / sizeof s4_operation_rows[0]);

s4_place s4_operation_place(const s4_operation_row *row, const s4_placement *placement)
{
    if (row->transfer == S4_TRANSFER_NONE || row->transfer == S4_TRANSFER_KERNEL_OUT)
        return placement->stage[row->stage];
    return S4_PLACE_GPU;
}

unsigned s4_operation_uses(const s4_operation_row *row, const s4_placement *placement, s4_place place)
{
    int between_places = row->transfer == S4_TRANSFER_SYSTEM || row->transfer == S4_TRANSFER_KERNEL ||
                         row->transfer == S4_TRANSFER_KERNEL_GRADIENT || row->transfer == S4_TRANSFER_GRADIENTS;
    return between_places || s4_operation_place(row, placement) == place ? row->uses : 0;
}

void s4_operation_moves(const s4_operation_row *row, const s4_shape *s, const s4_placement *placement,
                        int64_t *to_device, int64_t *to_host)
{
    int64_t dtype = s->dtype == S4_F32 ? 4 : 8;
    int64_t samples = dtype * s->batch * s->d_model * s->length, kernels = s->kernels * s->d_model * s->kernel_length;
    int to_gpu = placement->stage[row->stage] == S4_PLACE_GPU; /* of rows that go either way */
    int64_t bytes = 0, back = 0;
    switch (row->transfer) {
    case S4_TRANSFER_NONE: break;
    case S4_TRANSFER_SYSTEM: bytes = 8 * s4_system_count(s); break;
    case S4_TRANSFER_U: bytes = samples; break;
    case S4_TRANSFER_DY: bytes = samples * s->channels; break;
    case S4_TRANSFER_Y: back = samples * s->channels; break;
    case S4_TRANSFER_DU: back = samples; break;
    case S4_TRANSFER_KERNEL: *(to_gpu ? &bytes : &back) = dtype * kernels; break;
    case S4_TRANSFER_KERNEL_GRADIENT: *(to_gpu ? &bytes : &back) = 8 * kernels; break;
    case S4_TRANSFER_KERNEL_OUT: back = to_gpu ? dtype * kernels : 0; break;
    case S4_TRANSFER_GRADIENTS: {
        int64_t skip = 8 * s->d_model * s->channels, all = 8 * s4_system_gradient_count(s);
        back += placement->stage[S4_STAGE_KERNEL] == S4_PLACE_GPU ? all - skip : 0;
        back += placement->stage[S4_STAGE_CONVOLVE] == S4_PLACE_GPU ? skip : 0;
        break;
    }
    }
    *to_device = bytes;
    *to_host = back;
}
