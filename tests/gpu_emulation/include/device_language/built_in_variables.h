/* threadIdx and its companions: plain globals that the scheduler sets whenever it
 * lets another GPU thread run. They cannot be macros, since cudaLaunchConfig_t has
 * members called gridDim and blockDim. */
#ifndef S4_EMULATION_BUILT_IN_VARIABLES_H
#define S4_EMULATION_BUILT_IN_VARIABLES_H

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace s4_emulation
{
constexpr unsigned lanes_per_warp = 32;
extern unsigned lane; /* of the GPU thread now running */

/* Where in the source something was called. */
struct Site {
    const char *file;
    int line;
};
} // namespace s4_emulation

constexpr int warpSize = int(s4_emulation::lanes_per_warp);

/* As default arguments these give the caller's position. */
#define S4_EMULATION_SITE const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()
#define S4_EMULATION_HERE (::s4_emulation::Site{file_, line_})

#endif
