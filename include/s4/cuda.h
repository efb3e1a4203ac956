/*
 * For programs that use CUDA themselves. No CUDA header is needed: a cudaStream_t is a struct CUstream_st *.
 *
 * A plan whose s4_problem.tensors is S4_PLACE_GPU takes u, y, their gradients, states and `lengths` in device memory of the
 * context's device (and the gradients of parameters, too, where the set-up runs on the GPU). With a stream of the caller,
 * forward, backward and step put their work there and return: they neither wait nor allocate, and can be captured in a
 * CUDA graph once a first call has been made outside of one. Exceptions, which wait: what runs on the CPU in the plan's
 * placement, like the gradients of parameters with the set-up on the CPU.
 */
#ifndef S4_CUDA_H
#define S4_CUDA_H

#include "plan.h"

S4_BEGIN_DECLS

struct CUstream_st;

/* Work on the GPU through this workspace goes to `stream`, in order with what the caller puts there; the stream must
 * outlive the workspace or be taken back with NULL. Waits for earlier work. S4_ERROR_ARGUMENT: the workspace has no part
 * on the GPU. */
S4_API s4_status s4_workspace_set_stream(s4_workspace *workspace, struct CUstream_st *stream);

S4_END_DECLS
#endif
