# The GPU module libs4_gpu.so, which libs4 loads when a GPU place is asked for.
#
#   S4_GPU=cuda      gpu/ compiled by nvcc, linked with the CUDA runtime and cuFFT, beside libs4.so
#   S4_GPU=emulated  the same sources compiled for the CPU, linked with tests/gpu_emulation, beside libs4.so
#   S4_GPU=off       no module: libs4 says that there is none
#   S4_GPU=auto      cuda where nvcc is, else off
#
# With tests, and where the toolkit's headers are, the emulated module is built too, in a folder of its own, whatever
# S4_GPU is: S4_EMULATED_MODULE is its path, empty where there is none.

set(S4_EMULATED_MODULE "")
find_package(CUDAToolkit QUIET)
find_program(S4_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR})
mark_as_advanced(S4_NVCC)

set(s4_gpu ${S4_GPU})
if(s4_gpu STREQUAL "auto")
    if(CUDAToolkit_FOUND AND S4_NVCC AND NOT S4_SANITIZE)
        set(s4_gpu cuda)
    else()
        set(s4_gpu off)
    endif()
endif()
if(NOT s4_gpu MATCHES "^(cuda|emulated|off)$")
    message(FATAL_ERROR "S4_GPU is \"${S4_GPU}\", must be auto, cuda, emulated or off")
endif()
if(NOT s4_gpu STREQUAL "off" AND NOT CUDAToolkit_FOUND)
    message(FATAL_ERROR "S4_GPU=${s4_gpu} needs the CUDA toolkit, which was not found")
endif()

if(CUDAToolkit_FOUND)
    add_library(s4_cuda_headers INTERFACE)
    target_include_directories(s4_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
endif()

if(s4_gpu STREQUAL "cuda")
    add_subdirectory(gpu)
endif()
if(s4_gpu STREQUAL "emulated" OR (CUDAToolkit_FOUND AND BUILD_TESTING))
    enable_language(CXX)
    pkg_check_modules(FFTW3F REQUIRED IMPORTED_TARGET fftw3f)
    add_library(S4::fftw3f ALIAS PkgConfig::FFTW3F)
    add_subdirectory(tests/gpu_emulation)
    add_subdirectory(tests/gpu_emulation/module)
    if(s4_gpu STREQUAL "emulated")
        set(s4_emulated_folder ${PROJECT_BINARY_DIR}/lib)
    else()
        set(s4_emulated_folder ${PROJECT_BINARY_DIR}/emulated)
    endif()
    set_target_properties(s4_gpu_emulated PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${s4_emulated_folder})
    set(S4_EMULATED_MODULE ${s4_emulated_folder}/libs4_gpu.so)
endif()
message(STATUS "GPU module: ${s4_gpu}; emulated module for tests: "
    "${S4_EMULATED_MODULE}")
