/* The one thread of the host that kernels and cuFFT run on. It runs while a host
 * thread waits inside a call, never beside one. */
#ifndef S4_EMULATION_DEVICE_THREAD_H
#define S4_EMULATION_DEVICE_THREAD_H

#include <functional>

namespace s4_emulation
{

void start_device_thread();
void stop_device_thread();
/* In a child of fork, where the thread is not. */
void forget_device_thread();

/* Runs the job on the device thread and returns when it is done. */
void run_on_device(const std::function<void()> &job);
/* From a job: runs something on the thread that waits for it. */
void run_on_host(const std::function<void()> &job);

} // namespace s4_emulation
#endif
