/* The GPU threads of one block, and how they take turns. */
#ifndef S4_EMULATION_BLOCK_H
#define S4_EMULATION_BLOCK_H

#include "cuda_runtime.h"
#include "fiber.h"
#include "violation.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace s4_emulation
{

/* A kernel launch, ready to run. */
struct Grid {
    dim3 blocks, threads;
    std::size_t dynamic_bytes = 0;
    std::string kernel; /* its name, and where it was launched */
    std::function<void()> one_thread;
};

enum class State : unsigned char { ready, in_barrier, in_warp_collective, returned };

struct GpuThread {
    uint3 index3{};
    unsigned index = 0, lane = 0; /* in the block, in the warp */
    State state = State::ready;
    Fiber *fiber = nullptr;
    Site site{}; /* of the collective it waits in */
    /* A warp collective: who takes part, what this lane gives, whose value it
     * wants, and what it gets. */
    unsigned mask = 0, from_lane = 0, ballot = 0;
    std::uint64_t given = 0, got = 0;
    /* Which of the two tokens this lane uses at its next __syncwarp(), and which
     * the lanes of the warp used at this one. */
    unsigned turn = 0, turns = 0;
};

/* Addresses that stand for barriers, for the race detector. Two of each, used in
 * turn: a thread that runs ahead must not release one that lags behind. */
struct Tokens {
    std::uint64_t barrier[2] = {}, lane[2][1024] = {};
};

class Block
{
  public:
    void run(const Grid &grid, uint3 index);

    const Grid *grid = nullptr;
    std::vector<GpuThread> threads;
    unsigned size = 0;
    unsigned arrived = 0, votes = 0, vote_result = 0, turn = 0; /* at the barrier */
    Site barrier_site{};
    std::unique_ptr<Tokens> tokens;

  private:
    friend void run_gpu_threads();
    GpuThread *next_unstarted();
    void draw_order();
    void resume(GpuThread &thread, Fiber &host);
    void run_warp(unsigned first, Fiber &host);
    unsigned following(unsigned i) const { return (i + order_step) % size; }

    unsigned started = 0, returned = 0;
    unsigned order_first = 0, order_step = 1, order_next = 0;
};

/* The block and the GPU thread that run now; NULL between blocks. */
extern Block *current_block;
extern GpuThread *current_thread;

/* Lets others run; returns when the current thread is ready again and its turn. */
void suspend();

/* "kernel k (launched at f.cu:12), block (..), thread (..)" of a thread. */
Words describe(const GpuThread &thread);

/* Everything before is visible to the grid's threads; theirs to everything after. */
void begin_grid();
void end_grid();

/* Runs all blocks, one after another. On the device thread. */
void run_grid(const Grid &grid);

/* For a signal handler: is p in the guard of the running thread's stack? */
bool is_stack_guard(const void *p);

} // namespace s4_emulation
#endif
