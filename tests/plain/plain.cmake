# ThreadSanitizer: Criterion does not start under it, so a main program and a header of ours take its place. And the
# sanitizer learns from Archer, of LLVM's OpenMP, which threads of a team wait for which. GCC's run-time has none, and
# every parallel region would be reported.
set(archer "")
if(OpenMP_omp_LIBRARY)
    cmake_path(GET OpenMP_omp_LIBRARY PARENT_PATH folder)
    find_library(S4_ARCHER archer PATHS ${folder} NO_DEFAULT_PATH)
    set(archer ${S4_ARCHER})
endif()
if(NOT archer)
    message(FATAL_ERROR "ThreadSanitizer needs clang with LLVM's OpenMP and its libarcher.so (libomp-dev)")
endif()
# What OpenMP's run-time itself does is no news; ignore_noninstrumented_modules, which Archer advises, would hide every
# memcpy of ours as well.
list(APPEND environment OMP_TOOL_LIBRARIES=${archer}
    "TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_SOURCE_DIR}/plain/tsan.txt")

add_library(s4_test_plain INTERFACE)
target_include_directories(s4_test_plain INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/plain)
set(s4_test_main plain/main.c)
set(s4_test_runner s4_test_plain)
