/* Launching a kernel, and the C++ overloads of NVIDIA's header that take a kernel
 * or a typed pointer where the C interface takes void *. */
#ifndef S4_EMULATION_LAUNCH_H
#define S4_EMULATION_LAUNCH_H

namespace s4_emulation
{

/* One argument as the kernel will get it, to be looked at before the launch. */
struct Argument {
    const void *bytes;
    std::size_t size;
    bool is_pointer;
};

/* `text` is the argument list of cudaLaunchKernelEx as written, for messages: a
 * kernel in an unnamed namespace has no symbol to be called by. */
cudaError_t launch(const char *text, Site where, const cudaLaunchConfig_t *config, const void *function,
                   const Argument *arguments, int count, std::function<void()> one_thread);

template <typename... Parameters, typename... Arguments>
inline cudaError_t launch_typed(const char *text, Site where, const cudaLaunchConfig_t *config,
                                void (*kernel)(Parameters...), Arguments &&...arguments)
{
    return [&](Parameters... converted) {
        const Argument list[] = {{&converted, sizeof converted, std::is_pointer_v<std::decay_t<Parameters>>}...,
                                 {nullptr, 0, false}};
        std::tuple<std::decay_t<Parameters>...> copies(converted...);
        return launch(text, where, config, reinterpret_cast<const void *>(kernel), list, int(sizeof...(Parameters)),
                      [kernel, copies] { std::apply(kernel, copies); });
    }(std::forward<Arguments>(arguments)...);
}

} // namespace s4_emulation

#define cudaLaunchKernelEx(...)                                                                                        \
    ::s4_emulation::launch_typed(#__VA_ARGS__, ::s4_emulation::Site{__FILE__, __LINE__}, __VA_ARGS__)

template <typename... P>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attribute, int value)
{
    return ::cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
template <typename... P>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(P...))
{
    return ::cudaFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}
template <typename... P>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(P...), int threads,
                                                                        std::size_t shared)
{
    return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, reinterpret_cast<const void *>(kernel), threads,
                                                           shared);
}
template <typename T> static inline cudaError_t cudaMalloc(T **p, std::size_t bytes)
{
    return ::cudaMalloc(reinterpret_cast<void **>(p), bytes);
}
template <typename T> static inline cudaError_t cudaMallocHost(T **p, std::size_t bytes)
{
    return ::cudaMallocHost(reinterpret_cast<void **>(p), bytes);
}

#endif
