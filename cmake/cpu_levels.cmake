# Sources that are compiled once for every instruction level of the processor (cpu/level.h says how one is chosen).
set(S4_CPU_LEVEL_SOURCES
    cpu/level/product.c
    cpu/level/cauchy.c
    cpu/level/vandermonde.c
    cpu/level/convolve.c
    cpu/level/step.c
    cpu/level/structured.c
    )

# Products and sums are fused by what the source says, so that a vector's lanes and what is left over of them round alike.
# GCC knows no such rule, but its "fast" comes to that here; clang's does not.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    set(s4_fused -ffp-contract=on)
else()
    set(s4_fused -ffp-contract=fast)
endif()
set(s4_level_base "")
set(s4_level_v3 -mavx2 -mfma)
set(s4_level_v4 -mavx2 -mfma -mavx512f -mavx512dq -mavx512vl -mprefer-vector-width=512)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(s4_levels base v3 v4)
else()
    set(s4_levels base)
endif()
set(S4_CPU_LEVEL_OBJECTS "")
if(S4_CPU_LEVEL_SOURCES)
    foreach(level IN LISTS s4_levels)
        add_library(s4_cpu_${level} OBJECT ${S4_CPU_LEVEL_SOURCES})
        target_include_directories(s4_cpu_${level} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
        target_compile_definitions(s4_cpu_${level} PRIVATE CPU_LEVEL_SUFFIX=_${level})
        target_compile_options(s4_cpu_${level} PRIVATE ${s4_level_${level}} ${s4_fused}
            $<$<NOT:$<CONFIG:Debug>>:-O3>)
        target_link_libraries(s4_cpu_${level} PRIVATE s4_warnings)
        list(APPEND S4_CPU_LEVEL_OBJECTS $<TARGET_OBJECTS:s4_cpu_${level}>)
        target_sources(s4 PRIVATE $<TARGET_OBJECTS:s4_cpu_${level}>)
    endforeach()
endif()
