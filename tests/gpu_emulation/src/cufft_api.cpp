/* cuFFT's interface: plans, work areas, and transforms that run in stream order. */
#include "controls.h"
#include "current_device.h"
#include "device_memory.h"
#include "fft_plan.h"
#include "stream.h"
#include "violation.h"
#include <algorithm>
#include <map>

namespace s4_emulation
{

namespace
{

/* Products that must stay far from the end of long long. */
constexpr long long largest_extent = 1ll << 56;

FftSide basic_side(const FftPlan &plan, bool half, bool padded)
{
    FftSide side;
    side.distance = 1;
    for (int i = 0; i < plan.rank; i++) {
        const bool last = i == plan.rank - 1;
        side.length[i] = last && half ? plan.n[i] / 2 + 1 : plan.n[i];
        side.embed[i] = last && padded ? 2 * (plan.n[i] / 2 + 1) : side.length[i];
        side.distance *= side.embed[i];
    }
    return side;
}

FftSide advanced_side(const FftPlan &plan, FftSide side, bool half)
{
    for (int i = 0; i < plan.rank; i++) side.length[i] = i == plan.rank - 1 && half ? plan.n[i] / 2 + 1 : plan.n[i];
    return side;
}

} // namespace

FftSide fft_in_side(const FftPlan &plan, bool in_place)
{
    return plan.basic ? basic_side(plan, plan.to_real(), plan.from_real() && in_place)
                      : advanced_side(plan, plan.in, plan.to_real());
}

FftSide fft_out_side(const FftPlan &plan, bool in_place)
{
    return plan.basic ? basic_side(plan, plan.from_real(), plan.to_real() && in_place)
                      : advanced_side(plan, plan.out, plan.from_real());
}

std::size_t fft_extent(const FftPlan &plan, const FftSide &side)
{
    long long last = 0;
    for (int i = 0; i < plan.rank; i++) last = last * (i ? side.embed[i] : 0) + side.length[i] - 1;
    return std::size_t((plan.batch - 1) * side.distance + last * side.stride + 1);
}

} // namespace s4_emulation

using namespace s4_emulation;

namespace
{

std::map<cufftHandle, std::shared_ptr<FftPlan>> plans;
int next_handle = 1;

/* cuFFT's own door: the same conditions, in cuFFT's codes. `error` is set where the
 * call must return it. */
class FftEntry
{
    Entry entry{nullptr};

  public:
    cufftResult error = CUFFT_SUCCESS;
    std::shared_ptr<FftPlan> plan;

    FftEntry(const char *name, cufftResult usual_error, const cufftHandle *handle)
    {
        int injected;
        if (name && entry.error != cudaErrorInitializationError && made_to_fail(name, usual_error, &injected))
            error = cufftResult(injected);
        else if (entry.error != cudaSuccess) /* no device, a dead context, or after fork */
            error = CUFFT_INTERNAL_ERROR;
        if (!handle) return;
        const auto it = plans.find(*handle);
        if (it != plans.end())
            plan = it->second;
        else if (error == CUFFT_SUCCESS)
            error = CUFFT_INVALID_PLAN;
    }
};

template <typename Integer>
cufftResult make(cufftHandle handle, int rank, const Integer *n, const Integer *in_embed, Integer in_stride,
                 Integer in_distance, const Integer *out_embed, Integer out_stride, Integer out_distance,
                 cufftType type, Integer batch, size_t *work_size)
{
    FftEntry entry("cufftMakePlan", CUFFT_ALLOC_FAILED, &handle);
    if (entry.error != CUFFT_SUCCESS) return entry.error;
    if (entry.plan->made) return CUFFT_INVALID_PLAN;
    if (!n || !work_size || batch < 1) return CUFFT_INVALID_VALUE;
    if (rank < 1 || rank > 3) return CUFFT_INVALID_VALUE;
    FftPlan plan = *entry.plan;
    plan.type = type;
    plan.rank = rank;
    plan.batch = batch;
    plan.basic = !in_embed || !out_embed;
    long long elements = batch;
    for (int i = 0; i < rank; i++) {
        plan.n[i] = n[i];
        if (n[i] < 1 || elements > largest_extent / plan.n[i]) return CUFFT_INVALID_SIZE;
        const bool last = i == rank - 1, real = plan.from_real() || plan.to_real();
        elements *= last && real ? plan.n[i] / 2 + 1 : plan.n[i];
        if (!plan.basic) {
            plan.in.embed[i] = in_embed[i];
            plan.out.embed[i] = out_embed[i];
        }
    }
    if (!plan.basic) {
        plan.in.stride = in_stride;
        plan.in.distance = in_distance;
        plan.out.stride = out_stride;
        plan.out.distance = out_distance;
        if (in_stride < 1 || out_stride < 1 || (batch > 1 && (in_distance < 1 || out_distance < 1)))
            return CUFFT_INVALID_VALUE;
    }
    /* The real size depends on the length in ways nobody promises; this one is never
     * zero, so that a plan without a work area cannot pass. */
    plan.work_size = (std::size_t(elements) * 2 * plan.real_size() + 255) / 256 * 256;
    if (plan.automatic && !(plan.work = allocate(Place::device, plan.work_size, current_device(), "cuFFT's work area")))
        return CUFFT_ALLOC_FAILED;
    plan.made = true;
    *entry.plan = plan;
    *work_size = plan.work_size;
    return CUFFT_SUCCESS;
}

void require_work_area(const FftPlan &plan)
{
    if (!plan.work)
        violation("cufftExec: the plan allocates no work area itself and was given none (cufftSetWorkArea)");
    if (!is_device_address(plan.work))
        violation("cufftExec: the work area is %s, not device memory", explain(plan.work).c_str());
    require_reachable(plan.work, plan.work_size, "cufftExec: work area");
    if (reinterpret_cast<std::uintptr_t>(plan.work) % 256)
        violation("cufftExec: the work area is not aligned to 256 bytes as what cudaMalloc returns");
}

cufftResult execute(cufftHandle handle, cufftType type, void *in, void *out, int direction)
{
    const FftEntry entry("cufftExec", CUFFT_EXEC_FAILED, &handle);
    if (entry.error != CUFFT_SUCCESS) return entry.error;
    if (!entry.plan->made) return CUFFT_INVALID_PLAN;
    const FftPlan plan = *entry.plan;
    if (plan.type != type) return CUFFT_INVALID_TYPE;
    if (!in || !out) return CUFFT_INVALID_VALUE;
    if (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE) return CUFFT_INVALID_VALUE;
    require_work_area(plan);
    const std::size_t complex_size = 2 * plan.real_size();
    if (reinterpret_cast<std::uintptr_t>(in) % plan.in_size() ||
        reinterpret_cast<std::uintptr_t>(out) % plan.out_size() ||
        (plan.from_real() && in == out && reinterpret_cast<std::uintptr_t>(in) % complex_size))
        violation("cufftExec: a buffer is not aligned to its element type");
    const std::size_t in_bytes = fft_extent(plan, fft_in_side(plan, in == out)) * plan.in_size();
    const std::size_t out_bytes = fft_extent(plan, fft_out_side(plan, in == out)) * plan.out_size();
    require_reachable(in, in_bytes, "cufftExec: input");
    require_reachable(out, out_bytes, "cufftExec: output");
    const auto overlaps_work = [&](const void *p, std::size_t size) {
        const auto *a = static_cast<const char *>(p), *w = static_cast<const char *>(plan.work);
        return a < w + plan.work_size && w < a + size;
    };
    if (overlaps_work(in, in_bytes) || overlaps_work(out, out_bytes))
        violation("cufftExec: a buffer overlaps the work area");
    Operation operation;
    operation.run = [plan, in, out, direction] {
        counts.transforms++;
        fft_run(plan, in, out, direction);
    };
    enqueue(resolve(plan.stream), std::move(operation));
    return CUFFT_SUCCESS;
}

} // namespace

extern "C" {

cufftResult cufftCreate(cufftHandle *handle)
{
    const FftEntry entry("cufftCreate", CUFFT_INTERNAL_ERROR, nullptr);
    if (entry.error != CUFFT_SUCCESS) return entry.error;
    *handle = next_handle++;
    plans[*handle] = std::make_shared<FftPlan>();
    count_object("FFT plan", 1);
    return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle handle)
{
    const FftEntry entry(nullptr, CUFFT_SUCCESS, &handle);
    if (!entry.plan) return CUFFT_INVALID_PLAN;
    if (entry.plan->automatic && entry.plan->work) {
        finish_all(); /* as freeing device memory does */
        release_allocation(Place::device, entry.plan->work, "cufftDestroy");
    }
    plans.erase(handle);
    count_object("FFT plan", -1);
    return CUFFT_SUCCESS;
}

cufftResult cufftMakePlanMany(cufftHandle handle, int rank, int *n, int *in_embed, int in_stride, int in_distance,
                              int *out_embed, int out_stride, int out_distance, cufftType type, int batch,
                              size_t *work_size)
{
    return make<int>(handle, rank, n, in_embed, in_stride, in_distance, out_embed, out_stride, out_distance, type,
                     batch, work_size);
}

cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long *n, long long *in_embed, long long in_stride,
                                long long in_distance, long long *out_embed, long long out_stride,
                                long long out_distance, cufftType type, long long batch, size_t *work_size)
{
    return make<long long>(handle, rank, n, in_embed, in_stride, in_distance, out_embed, out_stride, out_distance, type,
                           batch, work_size);
}

cufftResult cufftMakePlan1d(cufftHandle handle, int n, cufftType type, int batch, size_t *work_size)
{
    return make<int>(handle, 1, &n, nullptr, 1, 0, nullptr, 1, 0, type, batch, work_size);
}

cufftResult cufftPlanMany(cufftHandle *handle, int rank, int *n, int *in_embed, int in_stride, int in_distance,
                          int *out_embed, int out_stride, int out_distance, cufftType type, int batch)
{
    cufftResult result = cufftCreate(handle);
    if (result != CUFFT_SUCCESS) return result;
    size_t work_size;
    result = cufftMakePlanMany(*handle, rank, n, in_embed, in_stride, in_distance, out_embed, out_stride, out_distance,
                               type, batch, &work_size);
    if (result != CUFFT_SUCCESS) cufftDestroy(*handle);
    return result;
}

cufftResult cufftPlan1d(cufftHandle *handle, int n, cufftType type, int batch)
{
    return cufftPlanMany(handle, 1, &n, nullptr, 1, 0, nullptr, 1, 0, type, batch);
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int automatic)
{
    const FftEntry entry("cufftSetAutoAllocation", CUFFT_INTERNAL_ERROR, &handle);
    if (entry.error != CUFFT_SUCCESS) return entry.error;
    if (entry.plan->made) /* too late: the plan has its work area */
        return CUFFT_INVALID_PLAN;
    entry.plan->automatic = automatic != 0;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle handle, void *work)
{
    const FftEntry entry("cufftSetWorkArea", CUFFT_INTERNAL_ERROR, &handle);
    if (entry.error != CUFFT_SUCCESS) return entry.error;
    FftPlan &plan = *entry.plan;
    if (!plan.made) return CUFFT_INVALID_PLAN;
    if (plan.automatic) { /* the plan's own work area is given up for the caller's */
        finish_all();
        release_allocation(Place::device, plan.work, "cufftSetWorkArea");
        plan.automatic = false;
    }
    plan.work = work;
    return CUFFT_SUCCESS;
}

cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream)
{
    const FftEntry entry("cufftSetStream", CUFFT_INTERNAL_ERROR, &handle);
    if (entry.error != CUFFT_SUCCESS) return entry.error;
    resolve(stream);
    entry.plan->stream = stream;
    return CUFFT_SUCCESS;
}

cufftResult cufftGetSize(cufftHandle handle, size_t *work_size)
{
    const FftEntry entry("cufftGetSize", CUFFT_INTERNAL_ERROR, &handle);
    if (entry.error != CUFFT_SUCCESS) return entry.error;
    if (!entry.plan->made) return CUFFT_INVALID_PLAN;
    *work_size = entry.plan->work_size;
    return CUFFT_SUCCESS;
}

cufftResult cufftGetVersion(int *version)
{
    *version = CUFFT_VERSION;
    return CUFFT_SUCCESS;
}

cufftResult cufftExecC2C(cufftHandle h, cufftComplex *in, cufftComplex *out, int direction)
{
    return execute(h, CUFFT_C2C, in, out, direction);
}
cufftResult cufftExecR2C(cufftHandle h, cufftReal *in, cufftComplex *out)
{
    return execute(h, CUFFT_R2C, in, out, CUFFT_FORWARD);
}
cufftResult cufftExecC2R(cufftHandle h, cufftComplex *in, cufftReal *out)
{
    return execute(h, CUFFT_C2R, in, out, CUFFT_INVERSE);
}
cufftResult cufftExecZ2Z(cufftHandle h, cufftDoubleComplex *in, cufftDoubleComplex *out, int direction)
{
    return execute(h, CUFFT_Z2Z, in, out, direction);
}
cufftResult cufftExecD2Z(cufftHandle h, cufftDoubleReal *in, cufftDoubleComplex *out)
{
    return execute(h, CUFFT_D2Z, in, out, CUFFT_FORWARD);
}
cufftResult cufftExecZ2D(cufftHandle h, cufftDoubleComplex *in, cufftDoubleReal *out)
{
    return execute(h, CUFFT_Z2D, in, out, CUFFT_INVERSE);
}
}
