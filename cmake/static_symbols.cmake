# The archive as one object in which only the public names are global, so that it gets in nobody's way: what has hidden
# visibility becomes local, and so do the locks of OpenMP's critical sections, once memory is assigned to them (-d).
# Where the tools or the objects (link-time optimisation) do not allow it, the archive is as the compiler made it:
# S4_STATIC_HIDDEN is off then, and its internal names begin with s4_ or cpu_.
set(S4_STATIC_HIDDEN OFF)
if(BUILD_SHARED_LIBS OR NOT CMAKE_OBJCOPY OR CMAKE_INTERPROCEDURAL_OPTIMIZATION OR CMAKE_C_FLAGS MATCHES "-flto")
    return()
endif()
include(CheckLinkerFlag)
check_linker_flag(C LINKER:-d S4_LINKER_ASSIGNS_COMMON)
if(NOT S4_LINKER_ASSIGNS_COMMON)
    return()
endif()
set(S4_STATIC_HIDDEN ON)
set(s4_whole ${PROJECT_BINARY_DIR}/s4_whole.o)
separate_arguments(s4_c_flags UNIX_COMMAND "${CMAKE_C_FLAGS}")
add_custom_command(TARGET s4 POST_BUILD
    COMMAND ${CMAKE_C_COMPILER} ${s4_c_flags} -r -nostdlib -Wl,-d -o ${s4_whole} $<TARGET_OBJECTS:s4> ${S4_CPU_LEVEL_OBJECTS}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard --keep-global-symbol=s4_* ${s4_whole}
    COMMAND ${CMAKE_COMMAND} -E rm -f $<TARGET_FILE:s4>
    COMMAND ${CMAKE_AR} qcs $<TARGET_FILE:s4> ${s4_whole}
    COMMAND_EXPAND_LISTS VERBATIM)
