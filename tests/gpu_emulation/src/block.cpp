/* Runs the GPU threads of a block. Each runs until it returns or waits, so threads
 * that ought to synchronise and do not see each other far apart. Seed 0 moves all threads of a block on by turns, the
 * others one warp after another.
 *
 * A fiber runs one GPU thread after another as long as they return without waiting:
 * a kernel without barriers needs one fiber and no switch. A thread that waits keeps
 * its fiber, and the next one gets another. */
#include "block.h"
#include "controls.h"
#include "fiber_pool.h"
#include "shared_memory.h"
#include <algorithm>
#include <numeric>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace s4_emulation
{

unsigned lane;
Block *current_block;
GpuThread *current_thread;

namespace
{

Fiber *scheduler; /* the thread of the host */
Fiber *starting;  /* the fiber that is about to take the next GPU threads */
char begin_token, end_token;

void make_current(GpuThread &thread)
{
    current_thread = &thread;
    threadIdx = thread.index3;
    lane = thread.lane;
}

const char *describe_state(State state)
{
    switch (state) {
    case State::returned:
        return "has returned";
    case State::in_barrier:
        return "waits at __syncthreads";
    case State::in_warp_collective:
        return "waits in a warp collective";
    default:
        return "is ready";
    }
}

[[noreturn]] void deadlock(const Block &block)
{
    std::string list;
    int shown = 0;
    const GpuThread *previous = nullptr;
    for (unsigned i = 0; i < block.size && shown < 6; i++) {
        const GpuThread &t = block.threads[i];
        if (previous && previous->state == t.state && previous->site.line == t.site.line) continue;
        previous = &t;
        shown++;
        list += std::string("\n    from ") + describe(t).c_str() + ": " + describe_state(t.state);
        if (t.state != State::returned) list += ", line " + std::to_string(t.site.line);
    }
    violation("kernel %s: threads wait for each other for ever (a barrier that not all threads reach, or a mask that "
              "names a lane that does not come):%s",
              block.grid->kernel.c_str(), list.c_str());
}

} // namespace

void suspend() { current_thread->fiber->leave(*scheduler); }

/* What every fiber does. */
void run_gpu_threads();
static FiberPool fibers{run_gpu_threads};

void run_gpu_threads()
{
    Fiber *self = starting;
    for (;;) {
        while (GpuThread *thread = current_block->next_unstarted()) {
            thread->fiber = self;
            make_current(*thread);
            acquire(&begin_token);
            current_block->grid->one_thread();
            release(&end_token);
            thread->state = State::returned;
            current_block->returned++;
            if (!FiberPool::keeps_fiber) break;
        }
        fibers.give_back(self);
        self->leave(*scheduler);
    }
}

/* A fresh order for every round: i, i + step, i + 2 step, ... modulo the size. */
void Block::draw_order()
{
    order_first = controls.eager() || size == 1 ? 0 : size - 1;
    order_step = controls.eager() || size == 1 ? 1 : size - 1;
    if (controls.random() && size > 1) {
        order_first = unsigned(schedule.below(size));
        do order_step = unsigned(schedule.below(size - 1)) + 1;
        while (std::gcd(order_step, size) != 1);
    }
}

GpuThread *Block::next_unstarted()
{
    if (started == size) return nullptr;
    GpuThread *thread = &threads[order_next];
    order_next = following(order_next);
    started++;
    return thread;
}

void Block::resume(GpuThread &thread, Fiber &host)
{
    make_current(thread);
    counts.switches++;
    thread.fiber->enter(host);
}

/* As far as it comes: a warp waits for the others at a barrier only, and until then may be far ahead of them. */
void Block::run_warp(unsigned first, Fiber &host)
{
    const unsigned lanes = std::min(size - first, lanes_per_warp);
    const unsigned begin = controls.random() ? unsigned(schedule.below(lanes)) : 0;
    for (bool progress = true; progress;) {
        progress = false;
        for (unsigned l = 0; l < lanes; l++) {
            GpuThread &thread = threads[first + lanes - 1 - (l + begin) % lanes];
            if (thread.state != State::ready) continue;
            progress = true;
            resume(thread, host);
        }
    }
}

void Block::run(const Grid &launched, uint3 index)
{
    Fiber here;
    scheduler = &here;
    current_block = this;
    grid = &launched;
    blockIdx = index;
    blockDim = grid->threads;
    gridDim = grid->blocks;
    size = blockDim.x * blockDim.y * blockDim.z;
    started = returned = arrived = votes = turn = 0;
    if (threads.size() < size) threads.resize(size);
    const bool flat = size == blockDim.x;
    for (unsigned i = 0; i < size; i++) {
        GpuThread &t = threads[i];
        t = GpuThread{};
        t.index3 = {i, 0, 0};
        if (!flat) t.index3 = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
        t.index = i;
        t.lane = i % lanes_per_warp;
    }
    prepare_shared_memory(grid->dynamic_bytes);
    release(&begin_token);

    draw_order();
    order_next = order_first;
    while (started < size) {
        starting = fibers.take();
        counts.switches++;
        starting->enter(here);
    }
    while (returned < size) {
        draw_order();
        bool progress = false;
        for (unsigned k = 0, i = order_first; k < size; k++, i = following(i)) {
            if (threads[i].state != State::ready) continue;
            progress = true;
            if (controls.eager())
                resume(threads[i], here);
            else
                run_warp(i - i % lanes_per_warp, here);
        }
        if (!progress) deadlock(*this);
    }
    current_thread = nullptr;
    const long damage = damaged_shared_memory(grid->dynamic_bytes);
    if (damage >= 0)
        violation(
            "kernel %s, block (%u,%u,%u) wrote %ld bytes behind the end of its %zu bytes of dynamic shared memory",
            grid->kernel.c_str(), index.x, index.y, index.z, damage, grid->dynamic_bytes);
    counts.blocks++;
    counts.threads += size;
    current_block = nullptr;
}

Words describe(const GpuThread &t)
{
    return words("kernel %s, block (%u,%u,%u), thread (%u,%u,%u)", current_block->grid->kernel.c_str(), blockIdx.x,
                 blockIdx.y, blockIdx.z, t.index3.x, t.index3.y, t.index3.z);
}

bool is_stack_guard(const void *p) { return current_thread && current_thread->fiber->guards(p); }

void begin_grid()
{
    fibers.begin_launch();
    release(&begin_token);
}

void end_grid() { acquire(&end_token); }

} // namespace s4_emulation
