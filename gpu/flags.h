/*
 * What operations find while they run on the device: words of S4_BUFFER_FLAGS, one for each thing that can be wrong. A
 * word is all ones, or holds the first element at which it was found and what was there; the smallest wins, so that it
 * does not depend on the order of threads. Read by gpu_check_flags after the work has been waited for.
 */
#ifndef GPU_FLAGS_H
#define GPU_FLAGS_H

#include "s4/backend.h"

typedef unsigned long long gpu_flag_word;

typedef enum gpu_flag {
    GPU_FLAG_RAW, /* + parameter: raw parameter is not finite; element and value */
    GPU_FLAG_DT = GPU_FLAG_RAW + S4_PARAMETER_COUNT, /* step is not finite; element of inv_dt and its value */
    GPU_FLAG_DT_SMALL,  /* step is under the smallest number; likewise */
    GPU_FLAG_DECAY,     /* Re Lambda is not finite; element of A_real and its value */
    GPU_FLAG_FREQUENCY, /* Im Lambda is not finite; element of A_imag and its value */
    GPU_FLAG_LAMBDA,    /* Lambda is 0; element of A_real and its value */
    GPU_FLAG_STEP,      /* dA or dB is not finite; channel and dt of its first mode */
    GPU_FLAG_UNDO,      /* I - dA^L is singular; channel and reciprocal condition number */
    GPU_FLAG_OVERFLOW,  /* dA^L, or what it gives, is not finite; channel */
    GPU_FLAG_KERNEL,    /* K^ or K is not finite; (channel, kernel, frequency or sample), and no value: the whole word */
    GPU_FLAG_COUNT
} gpu_flag;

#endif
