/*
 * cuFFT plans of a shape: one per direction and stage, each for a whole tile of rows in place, at the row stride that
 * the buffers have. Plans allocate no work area; they use the plan's buffer, which the two of a stage share since they
 * never run together.
 */
#include <stdlib.h>

#include "gpu/device.h"

typedef struct transform {
    cufftHandle handle;
    int made;
    size_t work; /* bytes */
} transform;

typedef struct prepared_shape {
    pthread_mutex_t lock; /* a cuFFT plan holds its stream and work area: setting them and executing belong together */
    transform transforms[GPU_TRANSFORM_COUNT];
} prepared_shape;

/* What distinguishes the four. Types by dtype: f32, f64. */
static const struct {
    const char *name;
    int inverse, in_double, of_kernel;
    s4_buffer rows, work;
} properties[GPU_TRANSFORM_COUNT] = {
    [GPU_KERNEL_INVERSE] = {"inverse FFT of the kernel", 1, 1, 1, S4_BUFFER_KERNEL_ROWS, S4_BUFFER_KERNEL_FFT_WORK},
    [GPU_KERNEL_FORWARD] = {"FFT of the kernel's gradient", 0, 1, 1, S4_BUFFER_KERNEL_ROWS, S4_BUFFER_KERNEL_FFT_WORK},
    [GPU_ROWS_FORWARD] = {"FFT of rows", 0, 0, 0, S4_BUFFER_ROWS_U, S4_BUFFER_CONVOLVE_FFT_WORK},
    [GPU_ROWS_INVERSE] = {"inverse FFT of rows", 1, 0, 0, S4_BUFFER_ROWS_U, S4_BUFFER_CONVOLVE_FFT_WORK},
};
static const cufftType types[2][2] = {{CUFFT_R2C, CUFFT_C2R}, {CUFFT_D2Z, CUFFT_Z2D}}; /* [double][inverse] */

static int is_double(const s4_shape *shape, gpu_transform which)
{
    return properties[which].in_double || shape->dtype == S4_F64;
}

static int64_t transform_length(const s4_shape *shape, gpu_transform which)
{
    return properties[which].of_kernel ? shape->kernel_length : shape->fft_length;
}

/* Whether this place has the stage, and the plan's direction uses the transform. */
static int is_used(const s4_shape *shape, const int64_t *bytes, gpu_transform which)
{
    if (bytes[properties[which].rows] <= 0 || !transform_length(shape, which)) return 0;
    return which != GPU_KERNEL_FORWARD || shape->direction == S4_DIRECTION_TRAINING;
}

static s4_status make(const s4_shape *shape, const int64_t *bytes, gpu_transform which, transform *t)
{
    const char *const name = properties[which].name;
    const int in_double = is_double(shape, which), inverse = properties[which].inverse;
    const int64_t length = transform_length(shape, which), stride = s4_row_stride(length);
    const int64_t rows = properties[which].of_kernel ? shape->tile_channels : shape->tile_rows;
    const int64_t needed = rows * stride * (in_double ? 8 : 4);
    if (needed > bytes[properties[which].rows])
        return gpu_host->fail(S4_ERROR_OUT_OF_BUDGET, "%s: %lld rows need %lld bytes, the plan has %lld", name,
                              (long long)rows, (long long)needed, (long long)bytes[properties[which].rows]);
    if (length == 1) /* its own transform */
        return S4_OK;

    long long n = length, reals = stride, complexes = stride / 2;
    GPU_TRY(gpu_check_fft(cufftCreate(&t->handle), name, "cufftCreate"));
    t->made = 1;
    GPU_TRY(gpu_check_fft(cufftSetAutoAllocation(t->handle, 0), name, "cufftSetAutoAllocation"));
    GPU_TRY(gpu_check_fft(cufftMakePlanMany64(t->handle, 1, &n, inverse ? &complexes : &reals, 1,
                                              inverse ? complexes : reals, inverse ? &reals : &complexes, 1,
                                              inverse ? reals : complexes, types[in_double][inverse], rows, &t->work),
                          name, "cufftMakePlanMany64"));
    if (t->work > (size_t)bytes[properties[which].work])
        return gpu_host->fail(S4_ERROR_OUT_OF_BUDGET,
                              "%s (length %lld, %lld rows): cuFFT needs a work area of %zu bytes, the plan has %lld",
                              name, n, (long long)rows, t->work, (long long)bytes[properties[which].work]);
    return S4_OK;
}

static void destroy(prepared_shape *p)
{
    for (int which = 0; which < GPU_TRANSFORM_COUNT; which++)
        if (p->transforms[which].made) (void)cufftDestroy(p->transforms[which].handle);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

s4_status gpu_prepare(s4_device *device, const s4_shape *shape, const int64_t *bytes, void **prepared)
{
    int previous;
    *prepared = NULL;
    prepared_shape *p = calloc(1, sizeof *p);
    if (!p) return gpu_host->fail(S4_ERROR_MEMORY, "prepare: %zu bytes of host memory", sizeof *p);
    if (pthread_mutex_init(&p->lock, NULL)) {
        free(p);
        return gpu_host->fail(S4_ERROR_MEMORY, "prepare: no mutex");
    }
    s4_status status = gpu_enter(device, "prepare", &previous);
    if (status) {
        destroy(p);
        return status;
    }
    for (int which = 0; which < GPU_TRANSFORM_COUNT && !status; which++)
        if (is_used(shape, bytes, (gpu_transform)which))
            status = make(shape, bytes, (gpu_transform)which, &p->transforms[which]);
    if (status)
        destroy(p);
    else
        *prepared = p;
    gpu_leave(device, previous);
    return status;
}

void gpu_unprepare(s4_device *device, void *prepared)
{
    int previous;
    if (!prepared) return;
    gpu_enter_to_release(device, &previous);
    gpu_wait_for_queues(device); /* work may still use its tables */
    destroy(prepared);
    (void)cudaGetLastError();
    gpu_leave(device, previous);
}

static cufftResult execute(cufftHandle handle, cufftType type, void *rows)
{
    switch (type) {
    case CUFFT_R2C:
        return cufftExecR2C(handle, rows, rows);
    case CUFFT_C2R:
        return cufftExecC2R(handle, rows, rows);
    case CUFFT_D2Z:
        return cufftExecD2Z(handle, rows, rows);
    case CUFFT_Z2D:
        return cufftExecZ2D(handle, rows, rows);
    default:
        return CUFFT_INVALID_TYPE;
    }
}

s4_status gpu_transform_rows(const s4_task *task, gpu_transform which, void *rows, const char *operation)
{
    prepared_shape *p = task->prepared;
    const transform *t = &p->transforms[which];
    if (transform_length(task->shape, which) == 1) return S4_OK;
    if (!t->made)
        return gpu_host->fail(S4_ERROR_ORDER, "%s: the %s was not prepared", operation, properties[which].name);
    const cufftType type = types[is_double(task->shape, which)][properties[which].inverse];
    pthread_mutex_lock(&p->lock);
    s4_status status = gpu_check_fft(cufftSetStream(t->handle, gpu_stream(task)), operation, "cufftSetStream");
    if (!status && t->work > 0)
        status = gpu_check_fft(cufftSetWorkArea(t->handle, task->buffer[properties[which].work]), operation,
                               "cufftSetWorkArea");
    if (!status) status = gpu_launched_fft(task, execute(t->handle, type, rows), operation, properties[which].name);
    pthread_mutex_unlock(&p->lock);
    return status;
}
