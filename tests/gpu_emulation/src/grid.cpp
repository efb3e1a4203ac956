/* Runs the blocks of a grid, one after another in an order that the seed chooses. */
#include "block.h"
#include "controls.h"
#include "device_memory.h"
#include <numeric>
#include <thread>

namespace s4_emulation
{

namespace
{

void run_one(const Grid &grid, uint3 index)
{
#if S4_EMULATION_THREAD_SANITIZER
    /* A thread of the host for each block: its shared memory is then at home in a
     * thread-local block that the race detector knows to be new. The GPU threads of
     * different blocks stay unordered, so races between blocks are found as well. */
    std::thread([&] {
        provide_signal_stack();
        Block block;
        block.tokens = std::make_unique<Tokens>();
        block.run(grid, index);
    }).join();
#else
    static Block block;
    if (!block.tokens) block.tokens = std::make_unique<Tokens>();
    block.run(grid, index);
#endif
}

} // namespace

void run_grid(const Grid &grid)
{
    const std::uint64_t size = std::uint64_t(grid.blocks.x) * grid.blocks.y * grid.blocks.z;
    std::uint64_t at = controls.eager() ? 0 : size - 1, step = controls.eager() || size == 1 ? 1 : size - 1;
    if (controls.random() && size > 1) {
        at = schedule.below(size);
        do step = schedule.below(size - 1) + 1;
        while (std::gcd(step, size) != 1);
    }
    begin_grid();
    for (std::uint64_t k = 0; k < size; k++, at = (at + step) % size)
        run_one(grid, {unsigned(at % grid.blocks.x), unsigned(at / grid.blocks.x % grid.blocks.y),
                       unsigned(at / grid.blocks.x / grid.blocks.y)});
    end_grid();
    counts.kernels++;
}

} // namespace s4_emulation
