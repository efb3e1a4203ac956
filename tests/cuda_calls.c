/* See cuda_calls.h. */
#define _GNU_SOURCE
#include "cuda_calls.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "expect.h"
#include "place.h"

cuda_calls cuda_find(void)
{
    const char *path = getenv("S4_GPU_MODULE");
    cuda_calls c = {.module = path && *path && place_has_gpu() ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL};
    const struct {
        const char *name;
        void *to;
    } calls[] = {
        {"cudaMalloc", &c.malloc},
        {"cudaFree", &c.free},
        {"cudaMemcpy", &c.copy},
        {"cudaMemcpyAsync", &c.copy_async},
        {"cudaStreamCreateWithFlags", &c.stream_create},
        {"cudaStreamDestroy", &c.stream_destroy},
        {"cudaStreamSynchronize", &c.stream_synchronize},
        {"cudaStreamBeginCapture", &c.begin_capture},
        {"cudaStreamEndCapture", &c.end_capture},
        {"cudaGraphInstantiate", &c.instantiate},
        {"cudaGraphLaunch", &c.launch},
        {"cudaGraphDestroy", &c.graph_destroy},
        {"cudaGraphExecDestroy", &c.executable_destroy},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = c.module ? dlsym(c.module, calls[i].name) : NULL;
        if (!found)
            cr_skip_test("placement %s without a GPU module in S4_GPU_MODULE", place_text());
        memcpy(calls[i].to, &found, sizeof found);
    }
    return c;
}

void *cuda_put(const cuda_calls *cuda, size_t bytes, const void *from)
{
    void *to = NULL;
    check(cuda->malloc(&to, bytes) == 0, "[%s] no device memory", about_text());
    check(cuda->copy(to, from, bytes, TO_DEVICE) == 0, "[%s] no copy to the device", about_text());
    return to;
}

void cuda_get(const cuda_calls *cuda, size_t bytes, const void *from, void *to)
{
    check(cuda->copy(to, from, bytes, TO_HOST) == 0, "[%s] no copy from the device", about_text());
}

struct CUstream_st *cuda_stream(const cuda_calls *cuda)
{
    struct CUstream_st *stream = NULL;
    check(cuda->stream_create(&stream, NON_BLOCKING) == 0, "[%s] no stream", about_text());
    return stream;
}
