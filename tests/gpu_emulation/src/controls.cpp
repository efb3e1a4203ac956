/* The test controls, their environment variables, injected failures and the ledger
 * of live objects. */
#include "controls.h"
#include "device_memory.h"
#include "device_thread.h"
#include "violation.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace s4_emulation
{

Controls controls;
Random schedule;
s4_emulation_counts counts;
cudaError_t sticky_error = cudaSuccess;
std::recursive_mutex one_at_a_time;

namespace
{

/* Not in shared memory's way: device threads never ask for it. */
thread_local cudaError_t last_error_here = cudaSuccess;

struct Failure {
    std::string name; /* empty: any call */
    long remaining;
    int error; /* 0: the usual one */
};
std::vector<Failure> failures;
std::map<std::string, long> objects;

void set_seed(std::uint64_t seed)
{
    controls.seed = seed;
    schedule.state = seed;
}

void set_devices(int count)
{
    if (count < 0 || count > 8) violation("%d devices: 0 to 8 can be emulated", count);
    controls.devices = count;
}

void set_failure(const char *name, long nth, int error)
{
    const std::string key = name ? name : "";
    if (nth > 0)
        failures.push_back({key, nth, error});
    else
        failures.erase(
            std::remove_if(failures.begin(), failures.end(), [&](const Failure &f) { return f.name == key; }),
            failures.end());
}

void read_failures(const char *text)
{
    std::string list = text;
    for (std::size_t at = 0; at < list.size();) {
        const std::size_t end = std::min(list.find(',', at), list.size());
        const std::string item = list.substr(at, end - at);
        at = end + 1;
        const std::size_t first = item.find(':'), second = item.find(':', first + 1);
        const bool named = first != std::string::npos;
        const std::string nth = named ? item.substr(first + 1, second - first - 1) : item;
        const long n = std::strtol(nth.c_str(), nullptr, 10);
        if (n < 1) violation("S4_EMULATION_FAIL_CALL=%s: not N, NAME:N or NAME:N:ERROR", text);
        const int error = named && second != std::string::npos ? std::atoi(item.c_str() + second + 1) : 0;
        set_failure(named ? item.substr(0, first).c_str() : nullptr, n, error);
    }
}

std::uint64_t number(const char *variable, std::uint64_t otherwise)
{
    const char *text = std::getenv(variable);
    if (!text) return otherwise;
    char *end;
    const std::uint64_t n = std::strtoull(text, &end, 0);
    if (end == text || *end) violation("%s=%s is not a number", variable, text);
    return n;
}

void read_environment()
{
    const Controls initial;
    failures.clear();
    set_seed(number("S4_EMULATION_SEED", initial.seed));
    set_devices(int(number("S4_EMULATION_DEVICES", std::uint64_t(initial.devices))));
    controls.memory = number("S4_EMULATION_MEMORY", initial.memory);
    if (const char *text = std::getenv("S4_EMULATION_FAIL_CALL")) read_failures(text);
    const char *leaks = std::getenv("S4_EMULATION_LEAKS");
    controls.leaks_fail = leaks && !std::strcmp(leaks, "fail");
}

/* From the first call to the module's unloading or the process's end. */
struct Lifetime {
    pid_t process = getpid();
    Lifetime()
    {
        read_environment();
        start_device_thread();
        watch_memory();
    }
    ~Lifetime()
    {
        if (process != getpid()) { /* a child of fork owns nothing */
            forget_device_thread();
            return;
        }
        stop_device_thread();
        unwatch_memory();
        if (s4_emulation_report_leaks() && controls.leaks_fail) violation("objects were still alive at the end");
    }
};
/* In static storage constructed late, hence destroyed before the globals above. */
const Lifetime &start()
{
    static Lifetime lifetime;
    return lifetime;
}

} // namespace

void count_object(const char *kind, int change) { objects[kind] += change; }

cudaError_t fail(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady) last_error_here = error;
    return error;
}

cudaError_t last_error(bool clear)
{
    const cudaError_t error = sticky_error != cudaSuccess ? sticky_error : last_error_here;
    if (clear) last_error_here = cudaSuccess;
    return error;
}

bool made_to_fail(const char *name, int usual_error, int *error)
{
    const bool is_call = std::strcmp(name, "kernel") != 0; /* a death in mid-flight is asked for by name only */
    counts.calls += is_call;
    bool found = false;
    for (std::size_t i = 0; i < failures.size();) {
        Failure &f = failures[i];
        if ((f.name.empty() ? !is_call : f.name != name) || --f.remaining > 0) {
            i++;
            continue;
        }
        *error = f.error ? f.error : usual_error;
        found = true;
        failures.erase(failures.begin() + std::ptrdiff_t(i));
    }
    return found;
}

Entry::Entry(const char *name, cudaError_t usual_error)
{
    const Lifetime &lifetime = start();
    if (lifetime.process != getpid()) { /* the lock may belong to a thread that fork left behind */
        error = cudaErrorInitializationError;
        return;
    }
    {
        const OrdersNothing quietly;
        lock = std::unique_lock<std::recursive_mutex>(one_at_a_time);
    }
    int injected;
    if (name && made_to_fail(name, usual_error, &injected))
        error = fail(cudaError_t(injected));
    else if (!controls.devices)
        error = fail(cudaErrorNoDevice);
    else
        error = sticky_error;
}

Entry::~Entry()
{
    const OrdersNothing quietly;
    if (lock.owns_lock()) lock.unlock();
}

} // namespace s4_emulation

using namespace s4_emulation;

extern "C" {

/* Each starts the emulation first: the environment must not overrule a call. */
void s4_emulation_set_seed(uint64_t seed)
{
    start();
    set_seed(seed);
}

void s4_emulation_set_devices(int count)
{
    start();
    set_devices(count);
}

void s4_emulation_set_memory(size_t bytes)
{
    start();
    controls.memory = bytes;
}

void s4_emulation_fail_call(const char *name, long nth, int error)
{
    start();
    set_failure(name, nth, error);
}

void s4_emulation_get_counts(s4_emulation_counts *out) { *out = counts; }

size_t s4_emulation_live_objects(void)
{
    long n = 0;
    for (const auto &kind : objects) n += kind.second;
    return size_t(n);
}

size_t s4_emulation_report_leaks(void)
{
    for (const auto &kind : objects)
        if (kind.second) remark("still alive: %ld %s", kind.second, kind.first.c_str());
    describe_live_memory();
    return s4_emulation_live_objects();
}

void s4_emulation_reset(void)
{
    const uint64_t device = counts.device_bytes, pinned = counts.pinned_bytes;
    counts = s4_emulation_counts{};
    counts.device_bytes = counts.device_bytes_peak = device;
    counts.pinned_bytes = counts.pinned_bytes_peak = pinned;
    sticky_error = cudaSuccess;
    read_environment();
}
}
