/* Stands in for NVIDIA's <cuda_runtime.h> so that an unchanged .cu file compiles
 * as C++17 and runs on the CPU. Only the device language is defined here. Every
 * host type, constant and prototype comes from NVIDIA's own <cuda_runtime_api.h>,
 * so the emulated runtime cannot drift from the real one: a wrong signature does
 * not compile. */
#ifndef S4_EMULATED_CUDA_RUNTIME_H
#define S4_EMULATED_CUDA_RUNTIME_H

#ifdef __CUDACC__
#error "the emulation's include folder must not be on nvcc's include path"
#endif
#ifndef __cplusplus
#error "host code in C includes <cuda_runtime_api.h>; <cuda_runtime.h> is for .cu files"
#endif

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <math.h>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include "device_language/qualifiers.h"

#include "device_language/built_in_variables.h"

#include "device_language/arithmetic.h"
#include "device_language/atomics.h"
#include "device_language/collectives.h"
#include "device_language/launch.h"

#endif
