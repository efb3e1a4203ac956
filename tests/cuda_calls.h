/*
 * The CUDA runtime that the GPU module of the test uses, emulated or real, for what a program of the caller would do with
 * it: device memory, streams, graphs. Needs no CUDA header. Every function returns 0 if all went well.
 */
#ifndef S4_TEST_CUDA_CALLS_H
#define S4_TEST_CUDA_CALLS_H

#include <stddef.h>

struct CUstream_st;

typedef struct cuda_calls {
    void *module;
    int (*malloc)(void **pointer, size_t bytes);
    int (*free)(void *pointer);
    int (*copy)(void *to, const void *from, size_t bytes, int kind);
    int (*copy_async)(void *to, const void *from, size_t bytes, int kind, struct CUstream_st *stream);
    int (*stream_create)(struct CUstream_st **stream, unsigned flags);
    int (*stream_destroy)(struct CUstream_st *stream);
    int (*stream_synchronize)(struct CUstream_st *stream);
    int (*begin_capture)(struct CUstream_st *stream, int mode);
    int (*end_capture)(struct CUstream_st *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*launch)(void *executable, struct CUstream_st *stream);
    int (*graph_destroy)(void *graph);
    int (*executable_destroy)(void *executable);
} cuda_calls;

enum { TO_DEVICE = 1, TO_HOST = 2 };
enum { NON_BLOCKING = 1 };

/* Of the module that S4_GPU_MODULE names; skips the test where the placement has no GPU or the module is not found. */
cuda_calls cuda_find(void);

/* Device memory with a copy of `from`, and back. */
void *cuda_put(const cuda_calls *cuda, size_t bytes, const void *from);
void cuda_get(const cuda_calls *cuda, size_t bytes, const void *from, void *to);
struct CUstream_st *cuda_stream(const cuda_calls *cuda);

#endif
