/* Barriers, votes and shuffles: a thread that arrives waits until all that take part
 * have arrived; the last one hands out the results. */
#include "block.h"
#include "controls.h"
#include "violation.h"
#include <algorithm>

namespace s4_emulation
{

namespace
{

char fence_token;

bool same_place(const Site &a, const Site &b)
{
    return a.line == b.line && (a.file == b.file || !std::strcmp(a.file, b.file));
}

/* Waits until every lane of the mask is in the same collective. */
void warp_rendezvous(unsigned mask, Site where, std::uint64_t given, unsigned from_lane)
{
    Block &block = *current_block;
    GpuThread &self = *current_thread;
    const unsigned first = self.index - self.lane;
    const unsigned lanes = std::min(block.size - first, lanes_per_warp);
    const unsigned exist = lanes < 32 ? (1u << lanes) - 1 : ~0u;
    if (!(mask >> self.lane & 1))
        violation("%s, line %d: the mask %08x lacks the calling lane", describe(self).c_str(), where.line, mask);
    if ((mask & ~exist) && mask != ~0u) /* a full mask is customary in a warp that is not full */
        violation("%s, line %d: the mask %08x names lanes that do not exist", describe(self).c_str(), where.line, mask);
    mask &= exist;
    self.mask = mask;
    self.site = where;
    self.given = given;
    self.from_lane = from_lane;
    self.state = State::in_warp_collective;

    GpuThread *warp = &block.threads[first];
    unsigned ballot = 0, turns = 0;
    for (unsigned k = 0, l = self.lane; k < lanes; k++) {
        l = l ? l - 1 : lanes - 1; /* the lane that runs next is the likeliest to be missing */
        const GpuThread &other = warp[l];
        if (!(mask >> l & 1)) continue;
        if (other.state != State::in_warp_collective || other.mask != mask || !same_place(other.site, where)) {
            suspend();
            return;
        }
        turns |= other.turn << l;
        ballot |= unsigned(other.given & 1) << l;
    }
    for (unsigned l = 0; l < lanes; l++) {
        GpuThread &other = warp[l];
        if (!(mask >> l & 1)) continue;
        /* The value of a lane outside the mask is undefined: NaN. */
        const bool takes_part = other.from_lane < 32 && (mask >> other.from_lane & 1);
        other.got = takes_part ? warp[other.from_lane].given : ~std::uint64_t(0);
        other.ballot = ballot;
        other.turns = turns;
        other.state = State::ready;
    }
}

} // namespace

unsigned block_barrier(Vote vote, bool yes, Site where)
{
    Block &block = *current_block;
    GpuThread &self = *current_thread;
    if (!block.arrived)
        block.barrier_site = where;
    else if (!same_place(block.barrier_site, where))
        violation("%s: __syncthreads at line %d while other threads wait at the one of line %d", describe(self).c_str(),
                  where.line, block.barrier_site.line);
    self.site = where;
    self.state = State::in_barrier;
    block.votes += yes;
    std::uint64_t *token = &block.tokens->barrier[block.turn & 1];
    release(token);
    if (++block.arrived == block.size) {
        block.vote_result = vote == Vote::all   ? block.votes == block.size
                            : vote == Vote::any ? block.votes != 0
                                                : block.votes;
        block.arrived = block.votes = 0;
        block.turn++;
        for (unsigned i = 0; i < block.size; i++) block.threads[i].state = State::ready;
    } else {
        suspend();
    }
    acquire(token);
    return block.vote_result;
}

std::uint64_t warp_exchange(unsigned mask, std::uint64_t bits, unsigned from_lane, Site where)
{
    warp_rendezvous(mask, where, bits, from_lane);
    return current_thread->got;
}

unsigned warp_vote(unsigned mask, Vote vote, bool yes, Site where)
{
    warp_rendezvous(mask, where, yes, 0);
    const GpuThread &self = *current_thread;
    return vote == Vote::ballot ? self.ballot : vote == Vote::any ? self.ballot != 0 : self.ballot == self.mask;
}

void warp_barrier(unsigned mask, Site where)
{
    /* Of the warp collectives only this one orders memory. */
    GpuThread &self = *current_thread;
    Tokens &tokens = *current_block->tokens;
    release(&tokens.lane[self.turn][self.index]);
    warp_rendezvous(mask, where, 0, 0);
    for (unsigned l = 0; l < lanes_per_warp; l++)
        if (self.mask >> l & 1) acquire(&tokens.lane[self.turns >> l & 1][self.index - self.lane + l]);
    self.turn ^= 1;
}

void thread_fence()
{
    acquire(&fence_token);
    release(&fence_token);
}

void device_trap(Site where)
{
    violation("%s: __trap() at %s:%d", describe(*current_thread).c_str(), where.file, where.line);
}

} // namespace s4_emulation
