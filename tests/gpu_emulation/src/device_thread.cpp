/* A thread that does one job at a time. It must be a thread of its own because the
 * zero-initialised thread-locals of the module are shared memory there, and are
 * overwritten before every block. Either this thread works or the one that waits for
 * it, so two semaphores hand the work over. */
#include "device_thread.h"
#include "device_memory.h"
#include "sanitizers.h"
#include "violation.h"
#include <memory>
#include <semaphore.h>
#include <thread>

namespace s4_emulation
{

namespace
{

class Turn
{
    sem_t semaphore;

  public:
    Turn() { sem_init(&semaphore, 0, 0); }
    ~Turn() { sem_destroy(&semaphore); }
    Turn(const Turn &) = delete;
    void give()
    {
        const OrdersNothing quietly; /* a race detector: see stream.cpp */
        sem_post(&semaphore);
    }
    void take()
    {
        const OrdersNothing quietly;
        while (sem_wait(&semaphore)) {} /* a signal came */
    }
};

class DeviceThread
{
    Turn of_device, of_host;
    const std::function<void()> *job = nullptr, *host_job = nullptr;
    bool stop = false;
    std::thread thread{[this] { loop(); }};

    void loop()
    {
        provide_signal_stack();
        const OwnMemory own;
        for (;;) {
            of_device.take();
            if (stop) return;
            (*job)();
            job = nullptr;
            of_host.give();
        }
    }

  public:
    void run(const std::function<void()> &next)
    {
        if (job) violation("a host function in a stream called CUDA");
        job = &next;
        for (;;) {
            of_device.give();
            of_host.take();
            if (!job) return;
            (*host_job)();
        }
    }
    void run_on_host(const std::function<void()> &next)
    {
        host_job = &next;
        of_host.give();
        of_device.take();
    }
    ~DeviceThread()
    {
        stop = true;
        of_device.give();
        thread.join();
    }
};
std::unique_ptr<DeviceThread> device_thread;

} // namespace

void start_device_thread() { device_thread = std::make_unique<DeviceThread>(); }
void stop_device_thread() { device_thread.reset(); }
void forget_device_thread()
{
    [[maybe_unused]] static DeviceThread *const kept = device_thread.release(); /* its destructor would wait for ever */
}
void run_on_device(const std::function<void()> &job) { device_thread->run(job); }
void run_on_host(const std::function<void()> &job) { device_thread->run_on_host(job); }

} // namespace s4_emulation
