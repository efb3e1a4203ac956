/* Every case, and which builds notice it: PLAIN, ADDRESS (address and undefined
 * behaviour sanitizers), THREAD (thread sanitizer). A case is noticed if any of the
 * runner's schedules ends in a violation, a sanitizer's report, an error code or
 * wrong numbers. NOBODY is for correct programs: there, any of these is a failure. */
#ifndef S4_GPU_DEFECTS_TABLE_H
#define S4_GPU_DEFECTS_TABLE_H

enum { NOBODY = 0, PLAIN = 1, ADDRESS = 2, THREAD = 4, EVERY = 7 };

#define S4_DEFECTS(X)                                                                                                  \
    /* correct_programs.cu */                                                                                          \
    X(correct_block_reduction, NOBODY, "shared memory, barriers and shuffles")                                         \
    X(correct_warp_in_shared, NOBODY, "__syncwarp orders a warp")                                                      \
    X(correct_last_block, NOBODY, "a ticket and fences let the last block see all others' results")                    \
    X(correct_reused_shared, NOBODY, "many blocks use the same static and dynamic shared memory")                      \
    X(correct_stream_order, NOBODY, "an event orders two streams")                                                     \
    X(correct_pinned_pipeline, NOBODY, "a pinned buffer goes to the device and back in one stream")                    \
    X(correct_graph, NOBODY, "a captured fork and join runs as often as it is launched")                               \
    X(correct_fft, NOBODY, "transforms with one work area, strides and paddings")                                      \
    X(correct_mathematics, NOBODY, "the device language's functions")                                                  \
    X(correct_failures, NOBODY, "every call fails once, nothing leaks")                                                \
    /* kernel_memory.cu */                                                                                             \
    X(global_write_behind_end, EVERY, "a block too many writes")                                                       \
    X(global_write_in_slack, EVERY, "one element behind an end that is no multiple of 256 bytes")                      \
    X(global_write_before_begin, EVERY, "one element before the beginning")                                            \
    X(global_read_behind_end, EVERY, "one element behind the end is read")                                             \
    X(global_read_in_slack, EVERY, "the same where the end is no multiple of 256 bytes")                               \
    X(global_uninitialised, EVERY, "device memory is read that nobody wrote")                                          \
    X(shared_static_overflow, ADDRESS, "an index behind a static shared array")                                        \
    X(shared_dynamic_overflow, EVERY, "one element more than was asked for at the launch")                             \
    X(shared_static_uninitialised, EVERY, "a static shared element is read that nobody wrote")                         \
    X(shared_dynamic_uninitialised, EVERY, "the same in dynamic shared memory")                                        \
    X(shared_from_earlier_block, EVERY, "a block counts on what an earlier one left behind")                           \
    X(local_array_too_large, EVERY, "a local array that no stack holds")                                               \
    X(misaligned_vector, ADDRESS, "a float4 is read at an odd float")                                                  \
    /* kernel_order.cu */                                                                                              \
    X(missing_barrier, EVERY, "no __syncthreads between writing and reading")                                          \
    X(missing_second_barrier, EVERY, "none between reading and the next tile's writing")                               \
    X(missing_barrier_between_sums, EVERY, "one warp reads sums that others already replace")                          \
    X(missing_syncwarp, EVERY, "a warp is taken to run in step")                                                       \
    X(divergent_barrier, EVERY, "only some threads reach the barrier")                                                 \
    X(two_barriers, EVERY, "threads wait at different barriers")                                                       \
    X(early_return, EVERY, "some threads return before the barrier")                                                   \
    X(mask_too_wide, EVERY, "a shuffle's mask names lanes that do not come")                                           \
    X(mask_lacks_caller, EVERY, "a shuffle's mask lacks the calling lane")                                             \
    X(shuffle_from_outside, EVERY, "a value is taken from a lane outside the mask")                                    \
    X(lost_update, THREAD, "threads add to one number without atomics")                                                \
    X(blocks_overwrite, PLAIN | THREAD, "blocks write different values to the same place")                             \
    X(block_order, EVERY, "a block counts on an earlier one's result")                                                 \
    /* host_memory.cu */                                                                                               \
    X(host_reads_device, EVERY, "the host dereferences a device pointer")                                              \
    X(host_pointer_to_kernel, EVERY, "a kernel gets a pointer to host memory")                                         \
    X(wrong_direction, EVERY, "a copy says to device and goes to the host")                                            \
    X(copy_too_long, EVERY, "a copy reads behind an allocation")                                                       \
    X(use_after_free, EVERY, "a kernel gets a pointer that was freed")                                                 \
    X(graph_after_free, EVERY, "a graph uses memory that was freed after its capture")                                 \
    X(double_free, EVERY, "the same memory is freed twice")                                                            \
    X(free_interior, EVERY, "not the beginning of an allocation is freed")                                             \
    X(leak, EVERY, "device memory is never freed")                                                                     \
    X(pinned_overrun, EVERY, "the host writes behind pinned memory")                                                   \
    X(too_many_threads, EVERY, "a block of 2048 threads")                                                              \
    X(too_much_shared, EVERY, "more dynamic shared memory than was opted in to")                                       \
    X(out_of_memory, EVERY, "more device memory than there is")                                                        \
    /* host_order.cu */                                                                                                \
    X(missing_stream_wait, EVERY, "a stream does not wait for another's result")                                       \
    X(event_too_early, EVERY, "the event is recorded before the work that it should stand for")                        \
    X(read_before_synchronize, EVERY, "the host reads pinned memory that a copy still writes")                         \
    X(source_reused, EVERY, "the host overwrites the source of a copy that still reads it")                            \
    X(freed_too_early, EVERY, "memory is freed while a kernel that uses it is under way")                              \
    X(destroyed_stream, EVERY, "work for a stream that was destroyed")                                                 \
    X(synchronize_in_capture, EVERY, "the host waits for a stream that is being captured")                             \
    X(unjoined_capture, EVERY, "a capture ends before its side stream came back")                                      \
    X(host_function_waits, EVERY, "a host function in a stream waits for the device")                                  \
    X(kernel_dies, EVERY, "an error of a running kernel stays")                                                        \
    /* fft.cu */                                                                                                       \
    X(fft_no_work_area, EVERY, "executed without a work area")                                                         \
    X(fft_small_work_area, EVERY, "the work area is too small")                                                        \
    X(fft_host_work_area, EVERY, "the work area is host memory")                                                       \
    X(fft_work_area_in_use, EVERY, "the work area holds data that is needed later")                                    \
    X(fft_input_reused, EVERY, "the input of a complex-to-real transform is used again")                               \
    X(fft_output_too_short, EVERY, "the output holds fewer rows than the batch")                                       \
    X(fft_wrong_stream, EVERY, "the plan was never told its stream")                                                   \
    X(fft_unscaled, EVERY, "forward and inverse without dividing by the length")

#define S4_DEFECT_DECLARE(name, noticed_by, what) int name();
namespace defects
{
S4_DEFECTS(S4_DEFECT_DECLARE)
}
#undef S4_DEFECT_DECLARE

#endif
