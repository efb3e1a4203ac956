/* Checks a launch and puts it into its stream. */
#include "block.h"
#include "controls.h"
#include "current_device.h"
#include "device_memory.h"
#include "shared_memory.h"
#include "stream.h"
#include "violation.h"
#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <map>

namespace s4_emulation
{

namespace
{

std::map<const void *, std::size_t> opted_in; /* to more dynamic shared memory */

/* The kernel's symbol where it has one, else the second argument of
 * "&config, kernel<float, 2>, x, n"; and where it was launched. */
std::string kernel_name(const char *arguments, Site where, const void *function)
{
    std::string name;
    int depth = 0, argument = 0;
    for (const char *c = arguments; *c && argument < 2; c++) {
        depth += *c == '(' || *c == '<' || *c == '[';
        depth -= *c == ')' || *c == '>' || *c == ']';
        if (*c == ',' && depth == 0)
            argument++;
        else if (argument == 1 && (*c != ' ' || !name.empty()))
            name += *c;
    }
    Dl_info symbol;
    if (dladdr(function, &symbol) && symbol.dli_saddr == function && symbol.dli_sname) {
        char *plain = abi::__cxa_demangle(symbol.dli_sname, nullptr, nullptr, nullptr);
        name = plain ? plain : symbol.dli_sname;
        std::free(plain);
    }
    const char *slash = std::strrchr(where.file, '/');
    return name + " (launched at " + (slash ? slash + 1 : where.file) + ":" + std::to_string(where.line) + ")";
}

/* A kernel can only reach device and pinned memory. Structures passed by value are
 * looked through for device addresses that are no longer valid. */
void check_argument(const std::string &kernel, int number, const Argument &argument)
{
    for (std::size_t at = 0; at + sizeof(void *) <= argument.size; at += sizeof(void *)) {
        const void *p;
        std::memcpy(&p, static_cast<const char *>(argument.bytes) + at, sizeof p);
        const bool suspicious = argument.is_pointer ? p != nullptr : was_given_out(p) && is_device_address(p);
        if (suspicious && !find_allocation(p) && !is_registered(p))
            violation("launch of kernel %s: argument %d holds %s, which is not memory of the device", kernel.c_str(),
                      number + 1, explain(p).c_str());
    }
}

} // namespace

cudaError_t launch(const char *text, Site where, const cudaLaunchConfig_t *config, const void *function,
                   const Argument *arguments, int count, std::function<void()> one_thread)
{
    S4_EMULATION_ENTER("launch", cudaErrorLaunchOutOfResources);
    const dim3 g = config->gridDim, b = config->blockDim;
    CUstream_st &s = resolve(config->stream);
    if (!g.x || !g.y || !g.z || !b.x || !b.y || !b.z || g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535 || b.z > 64 ||
        std::uint64_t(b.x) * b.y * b.z > 1024) {
        remark("launch of kernel %s: grid (%u,%u,%u) of blocks (%u,%u,%u) is refused",
               kernel_name(text, where, function).c_str(), g.x, g.y, g.z, b.x, b.y, b.z);
        return fail(cudaErrorInvalidConfiguration);
    }
    const auto limit = opted_in.find(function);
    if (config->dynamicSmemBytes > (limit == opted_in.end() ? shared_bytes_default : limit->second)) {
        remark("launch of kernel %s: %zu bytes of dynamic shared memory are refused",
               kernel_name(text, where, function).c_str(), config->dynamicSmemBytes);
        return fail(cudaErrorInvalidValue);
    }
    if (&s != &default_stream() && s.device != current_device()) return fail(cudaErrorInvalidResourceHandle);
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == cudaLaunchAttributeCooperative ||
            config->attrs[i].id == cudaLaunchAttributeClusterDimension)
            return fail(cudaErrorNotSupported);

    auto grid = std::make_shared<Grid>();
    grid->blocks = g;
    grid->threads = b;
    grid->dynamic_bytes = config->dynamicSmemBytes;
    grid->kernel = kernel_name(text, where, function);
    grid->one_thread = std::move(one_thread);
    for (int i = 0; i < count; i++) check_argument(grid->kernel, i, arguments[i]);

    counts.launches++;
    Operation operation;
    int death = 0;
    if (made_to_fail("kernel", cudaErrorLaunchFailure, &death))
        operation.run = [death] { sticky_error = cudaError_t(death); };
    else
        operation.run = [grid] { run_grid(*grid); };
    enqueue(s, std::move(operation));
    return cudaSuccess;
}

} // namespace s4_emulation

using namespace s4_emulation;

extern "C" {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *, const void *, void **)
{
    violation("cudaLaunchKernelExC does not know the types of the kernel's parameters: launch with the typed "
              "cudaLaunchKernelEx");
}

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value)
{
    S4_EMULATION_ENTER("cudaFuncSetAttribute");
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || std::size_t(value) > shared_bytes_opt_in) return fail(cudaErrorInvalidValue);
        opted_in[function] = std::size_t(value);
    }
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *function)
{
    S4_EMULATION_ENTER("cudaFuncGetAttributes");
    std::memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    const auto limit = opted_in.find(function);
    attributes->maxDynamicSharedSizeBytes = int(limit == opted_in.end() ? shared_bytes_default : limit->second);
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int threads, size_t shared)
{
    S4_EMULATION_ENTER("cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    if (threads < 1 || threads > 1024 || shared > shared_bytes_opt_in) return fail(cudaErrorInvalidValue);
    const int by_threads = 2048 / threads, by_shared = int(std::size_t(228 * 1024) / (shared + 1024));
    *blocks = std::min(by_threads, by_shared);
    return cudaSuccess;
}
}
