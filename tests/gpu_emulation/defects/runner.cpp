/* Runs every case of the module in processes of their own, under several schedules,
 * and compares with the table what was noticed.
 *
 *     s4_gpu_defect_runner MODULE            all cases
 *     s4_gpu_defect_runner MODULE NAME       one case, here and now, by the environment's schedule */
#include "gpu_emulation.h"
#include "table.h"
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <iterator>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

struct Row {
    const char *name;
    int noticed_by;
    const char *what;
};
constexpr Row rows[] = {
#define S4_DEFECT_ROW(name, noticed_by, what) {#name, noticed_by, what},
    S4_DEFECTS(S4_DEFECT_ROW)
#undef S4_DEFECT_ROW
};

#if defined(__SANITIZE_ADDRESS__)
constexpr int this_build = ADDRESS;
#elif defined(__SANITIZE_THREAD__)
constexpr int this_build = THREAD;
#elif defined(__has_feature)
constexpr int this_build = __has_feature(address_sanitizer)  ? ADDRESS
                           : __has_feature(thread_sanitizer) ? THREAD
                                                             : PLAIN;
#else
constexpr int this_build = PLAIN;
#endif

constexpr int sanitizer_exit = 98, seeds = 4, seconds_each = 60;

std::string builds(int mask)
{
    std::string s;
    s += mask & PLAIN ? " plain" : "";
    s += mask & ADDRESS ? " address,undefined" : "";
    s += mask & THREAD ? " thread" : "";
    return s.empty() ? " none" : s;
}

int run_here(const char *module, const char *name)
{
    alarm(seconds_each);
    void *handle = dlopen(module, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    using Run = int(const char *);
    Run *run = nullptr;
    *reinterpret_cast<void **>(&run) = dlsym(handle, "s4_defect_run");
    if (!run) return 2;
    const int result = run(name);
    dlclose(handle);
    return result;
}

struct Outcome {
    std::string verdict, message; /* verdict: empty if nothing was noticed */
};

std::string first_message(const std::string &output)
{
    for (const char *mark :
         {"violation: ", "data race", "runtime error: ", "ERROR: AddressSanitizer: ", "wrong number", "error "}) {
        const std::size_t at = output.find(mark);
        if (at != std::string::npos) return output.substr(at, std::min(output.find('\n', at) - at, std::size_t(150)));
    }
    return output.substr(0, 150);
}

Outcome run_apart(const char *module, const char *name, int seed)
{
    const std::string code = "exitcode=" + std::to_string(sanitizer_exit);
    std::vector<std::string> settings = {"S4_EMULATION_SEED=" + std::to_string(seed), "S4_EMULATION_LEAKS=fail",
                                         "ASAN_OPTIONS=detect_leaks=0:" + code, "UBSAN_OPTIONS=" + code,
                                         "TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=0:" + code};
    std::vector<char *> environment;
    for (std::string &setting : settings) environment.push_back(&setting[0]);
    for (char **e = environ; *e; e++)
        if (std::strncmp(*e, "S4_EMULATION_", 13) && !std::strstr(*e, "SAN_OPTIONS=")) environment.push_back(*e);
    environment.push_back(nullptr);
    std::string words[] = {"s4_gpu_defect_runner", module, name};
    char *arguments[] = {&words[0][0], &words[1][0], &words[2][0], nullptr};

    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) std::abort();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    pid_t child;
    if (posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, environment.data())) std::abort();
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string output;
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) output.append(part, std::size_t(n));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    const int result = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    Outcome o;
    o.message = first_message(output);
    switch (result) {
    case 0:
        break;
    case 1:
        o.verdict = "wrong numbers";
        break;
    case 2:
        o.verdict = "BROKEN CASE";
        break;
    case 3:
        o.verdict = "error code";
        break;
    case S4_EMULATION_VIOLATION_EXIT:
        o.verdict = "violation";
        break;
    case sanitizer_exit:
        o.verdict = "sanitizer";
        break;
    default:
        o.verdict = "CRASH";
        break;
    }
    return o;
}

/* A case under one schedule after another, until one is noticed. */
struct Trial {
    Outcome outcome;
    int seed = 0;
};

Trial try_case(const char *module, const Row &row)
{
    Trial trial;
    for (; trial.seed < seeds; trial.seed++) {
        trial.outcome = run_apart(module, row.name, trial.seed);
        if (!trial.outcome.verdict.empty()) break;
    }
    return trial;
}

std::vector<Trial> try_all(const char *module)
{
    std::vector<Trial> trials(std::size(rows));
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (unsigned w = 0; w < std::max(1u, std::thread::hardware_concurrency()); w++)
        workers.emplace_back([&] {
            for (std::size_t i; (i = next++) < std::size(rows);) trials[i] = try_case(module, rows[i]);
        });
    for (std::thread &w : workers) w.join();
    return trials;
}

/* One line for a case; false if the outcome is not what the table says. */
bool report(const Row &row, const Trial &trial)
{
    const std::string &verdict = trial.outcome.verdict;
    const bool noticed = !verdict.empty(), expected = row.noticed_by & this_build;
    /* A crash that nobody explained is never a pass. */
    const bool broken = verdict == "BROKEN CASE" || verdict == "CRASH";
    const bool good = !broken && (noticed ? row.noticed_by != NOBODY : !expected);
    std::printf("%s %-28s ", good ? "ok  " : "FAIL", row.name);
    if (noticed)
        std::printf("%s, seed %d: %s\n", verdict.c_str(), trial.seed, trial.outcome.message.c_str());
    else if (row.noticed_by == NOBODY)
        std::printf("no alarm\n");
    else
        std::printf("not noticed; noticed by the builds:%s\n", builds(row.noticed_by).c_str());
    if (!good) std::printf("     (%s)\n", row.what);
    return good;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc == 3) return run_here(argv[1], argv[2]);
    if (argc != 2) return 2;
    std::printf("build:%s\n", builds(this_build).c_str());
    const std::vector<Trial> trials = try_all(argv[1]);
    int surprises = 0, noticed = 0, defects = 0;
    for (std::size_t i = 0; i < std::size(rows); i++) {
        surprises += !report(rows[i], trials[i]);
        defects += rows[i].noticed_by != NOBODY;
        noticed += rows[i].noticed_by != NOBODY && !trials[i].outcome.verdict.empty();
    }
    std::printf("%d of %d defects noticed in this build, %d surprises\n", noticed, defects, surprises);
    return surprises != 0;
}
