/* What a fork needs: no FFT is being planned while a process forks, and the child's thread knows that it has no team.
 */
#include <pthread.h>

#include "cpu/fft.h"
#include "cpu/place.h"

static _Thread_local int forked;

static void in_child(void)
{
    forked = 1;
    cpu_fft_unlock();
}

/* When the library is loaded, not when it is first used: a program may have run OpenMP before. */
__attribute__((constructor)) static void register_fork(void) { pthread_atfork(cpu_fft_lock, cpu_fft_unlock, in_child); }

int cpu_lanes(int planned) { return forked ? 1 : planned; }
