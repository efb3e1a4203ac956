/* A transform as FFTW does it, with the hostility that cuFFT's documentation allows:
 * the work area is overwritten from end to end, and so is the input of a transform
 * from half-complex to real. */
#include "fft_plan.h"
#include "violation.h"
#include <cstring>
#include <fftw3.h>
#include <vector>

/* In FFTW's threads library, which the program may have or not: other threads of the
 * process may be planning too. */
extern "C" __attribute__((weak)) void fftw_make_planner_thread_safe(void);
extern "C" __attribute__((weak)) void fftwf_make_planner_thread_safe(void);

namespace s4_emulation
{

namespace
{

template <typename Real> struct Fftw;
template <> struct Fftw<float> {
    using Complex = fftwf_complex;
    using Dimension = fftwf_iodim64;
    static constexpr auto c2c = fftwf_plan_guru64_dft;
    static constexpr auto r2c = fftwf_plan_guru64_dft_r2c;
    static constexpr auto c2r = fftwf_plan_guru64_dft_c2r;
    static constexpr auto execute = fftwf_execute;
    static constexpr auto destroy = fftwf_destroy_plan;
};
template <> struct Fftw<double> {
    using Complex = fftw_complex;
    using Dimension = fftw_iodim64;
    static constexpr auto c2c = fftw_plan_guru64_dft;
    static constexpr auto r2c = fftw_plan_guru64_dft_r2c;
    static constexpr auto c2r = fftw_plan_guru64_dft_c2r;
    static constexpr auto execute = fftw_execute;
    static constexpr auto destroy = fftw_destroy_plan;
};

template <typename Real> void run(const FftPlan &plan, void *in, void *out, int direction)
{
    using F = Fftw<Real>;
    using Complex = typename F::Complex;
    const FftSide from = fft_in_side(plan, in == out), to = fft_out_side(plan, in == out);
    std::vector<typename F::Dimension> dimensions(static_cast<std::size_t>(plan.rank));
    long long from_stride = from.stride, to_stride = to.stride;
    for (int i = plan.rank - 1; i >= 0; i--) {
        dimensions[std::size_t(i)] = {std::ptrdiff_t(plan.n[i]), std::ptrdiff_t(from_stride),
                                      std::ptrdiff_t(to_stride)};
        from_stride *= from.embed[i];
        to_stride *= to.embed[i];
    }
    const typename F::Dimension rows = {std::ptrdiff_t(plan.batch), std::ptrdiff_t(from.distance),
                                        std::ptrdiff_t(to.distance)};
    const unsigned flags = FFTW_ESTIMATE | FFTW_UNALIGNED;
    auto *complex_in = static_cast<Complex *>(in), *complex_out = static_cast<Complex *>(out);
    auto *real_in = static_cast<Real *>(in), *real_out = static_cast<Real *>(out);
    const auto p = plan.from_real() ? F::r2c(plan.rank, dimensions.data(), 1, &rows, real_in, complex_out, flags)
                   : plan.to_real()
                       ? F::c2r(plan.rank, dimensions.data(), 1, &rows, complex_in, real_out, flags)
                       : F::c2c(plan.rank, dimensions.data(), 1, &rows, complex_in, complex_out, direction, flags);
    if (!p) violation("FFTW cannot do a transform that cuFFT was asked for");
    F::execute(p);
    F::destroy(p);
}

/* Only the elements of the transform: what lies between rows may be somebody else's. */
void overwrite_input(const FftPlan &plan, void *in)
{
    const FftSide side = fft_in_side(plan, false);
    auto *bytes = static_cast<char *>(in);
    for (long long b = 0; b < plan.batch; b++)
        for (long long i = 0; i < side.length[0]; i++)
            for (long long j = 0; j < (plan.rank > 1 ? side.length[1] : 1); j++)
                for (long long k = 0; k < (plan.rank > 2 ? side.length[2] : 1); k++) {
                    long long at = i;
                    if (plan.rank > 1) at = at * side.embed[1] + j;
                    if (plan.rank > 2) at = at * side.embed[2] + k;
                    at = b * side.distance + at * side.stride;
                    std::memset(bytes + std::size_t(at) * plan.in_size(), 0xff, plan.in_size());
                }
}

} // namespace

void fft_run(const FftPlan &plan, void *in, void *out, int direction)
{
    static const bool prepared = [] {
        if (fftw_make_planner_thread_safe) fftw_make_planner_thread_safe();
        if (fftwf_make_planner_thread_safe) fftwf_make_planner_thread_safe();
        return true;
    }();
    (void)prepared;
    std::memset(plan.work, 0xff, plan.work_size);
    if (plan.is_double())
        run<double>(plan, in, out, direction);
    else
        run<float>(plan, in, out, direction);
    if (plan.to_real() && in != out) overwrite_input(plan, in);
}

} // namespace s4_emulation
