/* What cuFFT's plan handles stand for. */
#ifndef S4_EMULATION_FFT_PLAN_H
#define S4_EMULATION_FFT_PLAN_H

#include <cstdint>
#include <cufft.h>
#include <memory>

namespace s4_emulation
{

/* Layout of one side of a transform, in elements of its type. Element (i0, i1, i2)
 * of row b is at b distance + ((i0 embed[1] + i1) embed[2] + i2) stride. */
struct FftSide {
    long long embed[3] = {}, stride = 1, distance = 0;
    long long length[3] = {}; /* as stored: a half-complex side has n/2 + 1 in the last dimension */
};

struct FftPlan {
    cufftType type = CUFFT_C2C;
    int rank = 0;
    long long n[3] = {}, batch = 0;
    bool basic = true; /* embeds were not given: strides and distances are ignored */
    FftSide in, out;   /* unless basic */

    bool made = false, automatic = true;
    void *work = nullptr;
    std::size_t work_size = 0;
    cudaStream_t stream = nullptr;

    bool is_double() const { return type == CUFFT_Z2Z || type == CUFFT_D2Z || type == CUFFT_Z2D; }
    bool from_real() const { return type == CUFFT_R2C || type == CUFFT_D2Z; }
    bool to_real() const { return type == CUFFT_C2R || type == CUFFT_Z2D; }
    std::size_t real_size() const { return is_double() ? 8 : 4; }
    std::size_t in_size() const { return real_size() * (from_real() ? 1 : 2); }
    std::size_t out_size() const { return real_size() * (to_real() ? 1 : 2); }
};

/* The sides of a transform of `plan`; basic ones depend on whether it is in place. */
FftSide fft_in_side(const FftPlan &plan, bool in_place);
FftSide fft_out_side(const FftPlan &plan, bool in_place);
/* Elements from the first to behind the last one that is touched. */
std::size_t fft_extent(const FftPlan &plan, const FftSide &side);

/* Does it, now. On the device thread. */
void fft_run(const FftPlan &plan, void *in, void *out, int direction);

} // namespace s4_emulation
#endif
