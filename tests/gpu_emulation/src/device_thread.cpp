/* A thread that does one job at a time. It must be a thread of its own because the
 * zero-initialised thread-locals of the module are shared memory there, and are
 * overwritten before every block. */
#include "device_thread.h"
#include "device_memory.h"
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace s4_emulation
{

namespace
{

class DeviceThread
{
    std::mutex mutex;
    std::condition_variable changed;
    const std::function<void()> *job = nullptr;
    bool stop = false;
    std::thread thread{[this] { loop(); }};

    void loop()
    {
        provide_signal_stack();
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            changed.wait(lock, [this] { return job || stop; });
            if (stop) return;
            (*job)();
            job = nullptr;
            changed.notify_all();
        }
    }

  public:
    void run(const std::function<void()> &next)
    {
        std::unique_lock<std::mutex> lock(mutex);
        job = &next;
        changed.notify_all();
        changed.wait(lock, [this] { return !job; });
    }
    ~DeviceThread()
    {
        {
            const std::lock_guard<std::mutex> lock(mutex);
            stop = true;
        }
        changed.notify_all();
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

} // namespace s4_emulation
