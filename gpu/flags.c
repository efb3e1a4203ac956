/*
 * What operations found while they ran on the device, told when the work has been waited for: reads S4_BUFFER_FLAGS and
 * raises the error that the CPU place raises at once. Values are good to six digits.
 */
#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "gpu/kernel.h"
#include "gpu/setup.h"

s4_status gpu_flags_open(const s4_task *task, int anew, gpu_flag_word **flags)
{
    s4_queue *queue = task->queue;
    *flags = task->buffer[S4_BUFFER_FLAGS];
    if (queue->flags == *flags && !anew) return S4_OK;
    GPU_TRY(gpu_check(cudaMemsetAsync(*flags, 0xff, S4_FLAGS * sizeof(gpu_flag_word), gpu_stream(task)), "flags",
                      "cudaMemsetAsync"));
    if (!gpu_is_captured(gpu_stream(task))) queue->flags = *flags; /* what a graph will do has not been done */
    return S4_OK;
}

static const char *const parameter_name[S4_PARAMETER_COUNT] = {
    [S4_PARAMETER_INV_DT] = "kernel.inv_dt", [S4_PARAMETER_A_REAL] = "kernel.A_real",
    [S4_PARAMETER_A_IMAG] = "kernel.A_imag", [S4_PARAMETER_B] = "kernel.B",
    [S4_PARAMETER_P] = "kernel.P",           [S4_PARAMETER_C] = "kernel.C",
    [S4_PARAMETER_D] = "D",
};

#define NOTHING ((gpu_flag_word)-1)

static int64_t index_of(gpu_flag_word word) { return (int64_t)(word >> 32); }

/* The upper half of a double, and the middle of what the lower half may be. */
static double value_of(gpu_flag_word word)
{
    gpu_flag_word bits = word << 32;
    double value;
    memcpy(&value, &bits, sizeof value);
    if (value - value == 0 && value != 0) bits |= (gpu_flag_word)1 << 31;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Raw parameters, in their order. */
static s4_status check_raw(const gpu_flag_word *flags)
{
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        const gpu_flag_word found = flags[GPU_FLAG_RAW + p];
        if (found != NOTHING)
            return gpu_host->fail(S4_ERROR_NOT_FINITE, "%s[%" PRId64 "] = %g is not finite", parameter_name[p],
                                  index_of(found), value_of(found));
    }
    return S4_OK;
}

/* A finite raw value may still overflow under its transform. */
static s4_status check_effective(const gpu_flag_word *flags, const s4_shape *shape)
{
    const gpu_flag_word dt = flags[GPU_FLAG_DT], small = flags[GPU_FLAG_DT_SMALL], zero = flags[GPU_FLAG_LAMBDA];
    const gpu_flag_word decay = flags[GPU_FLAG_DECAY], frequency = flags[GPU_FLAG_FREQUENCY];
    if (dt != NOTHING && index_of(dt) <= index_of(small))
        return gpu_host->fail(S4_ERROR_NOT_FINITE, "kernel.inv_dt[%" PRId64 "] = %.6g gives a dt that is not finite",
                              index_of(dt), value_of(dt));
    if (small != NOTHING)
        return gpu_host->fail(S4_ERROR_ARGUMENT,
                              "kernel.inv_dt[%" PRId64 "] = %.6g gives a dt that is too small at rate %g: must be at "
                              "least %g",
                              index_of(small), value_of(small), shape->rate, DBL_MIN);
    if (decay != NOTHING && index_of(decay) <= index_of(frequency) && index_of(decay) <= index_of(zero))
        return gpu_host->fail(S4_ERROR_NOT_FINITE,
                              "kernel.A_real[%" PRId64 "] = %.6g gives a Lambda that is not finite", index_of(decay),
                              value_of(decay));
    if (frequency != NOTHING && index_of(frequency) <= index_of(zero))
        return gpu_host->fail(S4_ERROR_NOT_FINITE,
                              "kernel.A_imag[%" PRId64 "] = %.6g gives a Lambda that is not finite",
                              index_of(frequency), value_of(frequency));
    if (zero != NOTHING)
        return gpu_host->fail(S4_ERROR_SINGULAR, "Lambda of copy %" PRId64 ", mode %" PRId64 " is exactly 0 (A_real = %g)",
                              index_of(zero) / shape->modes, index_of(zero) % shape->modes, value_of(zero));
    return S4_OK;
}

/* The first channel that failed; what cannot be undone is not finite either. */
static s4_status check_channels(const gpu_flag_word *flags, const s4_shape *shape)
{
    const gpu_flag_word step = flags[GPU_FLAG_STEP], undo = flags[GPU_FLAG_UNDO], large = flags[GPU_FLAG_OVERFLOW];
    if (step != NOTHING && index_of(step) <= index_of(undo) && index_of(step) <= index_of(large)) {
        if (shape->discretisation == S4_ZOH)
            return gpu_host->fail(S4_ERROR_NOT_FINITE, "channel %" PRId64 ": exp(dt Lambda) overflows at dt = %g",
                                  index_of(step), value_of(step));
        return gpu_host->fail(S4_ERROR_SINGULAR,
                              "channel %" PRId64 ": I - dt/2 A is singular to working precision at dt = %g",
                              index_of(step), value_of(step));
    }
    if (large != NOTHING && index_of(large) < index_of(undo))
        return gpu_host->fail(S4_ERROR_NOT_FINITE,
                              "channel %" PRId64 ": the read-out is not finite: a power of dA is too large",
                              index_of(large));
    if (undo != NOTHING)
        return gpu_host->fail(S4_ERROR_SINGULAR,
                              "channel %" PRId64 ": no C from C~: I - dA^L has reciprocal condition number %.3g, must be "
                              "at least %.3g",
                              index_of(undo), value_of(undo), (double)(2 * shape->modes) * DBL_EPSILON);
    return S4_OK;
}

/* No data of the plan: the account of what it moves does without. */
static s4_status read_flags(s4_queue *queue, gpu_flag_word *flags)
{
    const cudaStream_t stream = queue->stream[S4_LANE_WORK];
    const size_t bytes = S4_FLAGS * sizeof *flags;
    GPU_TRY(gpu_check(cudaMemcpyAsync(flags, queue->flags, bytes, cudaMemcpyDeviceToHost, stream), "check",
                      "cudaMemcpyAsync"));
    GPU_TRY(gpu_check(cudaStreamSynchronize(stream), "check", "cudaStreamSynchronize"));
    return S4_OK;
}

s4_status gpu_check_flags(s4_device *device, s4_queue *queue, const s4_shape *shape, void *const *buffer)
{
    gpu_flag_word flags[S4_FLAGS];
    int previous;
    if (!shape) queue->flags = NULL;
    if (!queue->flags || queue->flags != buffer[S4_BUFFER_FLAGS]) return S4_OK;
    GPU_TRY(gpu_enter(device, "check", &previous));
    s4_status status = read_flags(queue, flags);
    gpu_leave(device, previous);
    queue->flags = NULL;
    if (!status) status = check_raw(flags);
    if (!status) status = check_effective(flags, shape);
    if (!status) status = check_channels(flags, shape);
    if (!status && flags[GPU_FLAG_KERNEL] != NOTHING) status = gpu_kernel_fail(shape, (int64_t)flags[GPU_FLAG_KERNEL]);
    return status;
}
