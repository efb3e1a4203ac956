# Sources of the GPU module, for the CUDA build and for the emulated one.
set(S4_GPU_HOST_SOURCES
    backend.c
    convolve.c
    device.c
    failures.c
    kernel.c
    memory.c
    queue.c
    transforms.c)
set(S4_GPU_KERNEL_SOURCES
    kernels/convolve.cu
    kernels/convolve_gradient.cu
    kernels/convolve_kernel.cu
    kernels/kernel.cu
    kernels/kernel_gradient.cu)
