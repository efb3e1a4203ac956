# S4_SELF_CONTAINED: a build folder that runs on a machine which has the CUDA libraries and none of the others.
#
# What there is an archive of, fit for a shared library, is linked in; of the rest (the runtimes of OpenMP and Fortran,
# and what the tests need) copies lie in lib/copies, where every program of the folder looks before the system. The golden cases and the
# script of the report lie in the folder, too. cuFFT is that machine's own.
#
# Included before the targets, for how they are linked; s4_self_contained_folder(), after them, adds the copies.
if(NOT S4_SELF_CONTAINED)
    return()
endif()

# s4_link_archives(TARGET NAME...): the imported target is these archives, if all are there. The reference LAPACK and BLAS,
# in folders of their own, come before others: they are small, and start no threads.
function(s4_link_archives target)
    set(archives "")
    foreach(name IN LISTS ARGN)
        find_library(S4_ARCHIVE_${name} NAMES lib${name}.a PATH_SUFFIXES ${name})
        mark_as_advanced(S4_ARCHIVE_${name})
        if(NOT S4_ARCHIVE_${name})
            message(STATUS "No archive lib${name}.a: ${target} stays shared")
            return()
        endif()
        list(APPEND archives ${S4_ARCHIVE_${name}})
    endforeach()
    if(target STREQUAL "PkgConfig::LAPACKE")
        list(APPEND archives gfortran m) # gcc's archive of Fortran's runtime does not go into a shared library
    endif()
    set_property(TARGET ${target} PROPERTY INTERFACE_LINK_LIBRARIES ${archives})
endfunction()
s4_link_archives(PkgConfig::FFTW3 fftw3)
s4_link_archives(PkgConfig::LAPACKE lapacke lapack blas)
s4_link_archives(PkgConfig::CJSON cjson)

# A run path of a program is searched for what its libraries need as well, if it is of the older kind (DT_RPATH).
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib;$ORIGIN;$ORIGIN/../lib/copies")
# What comes from an archive is nobody else's.
add_link_options(-Wl,--disable-new-dtags -Wl,--exclude-libs,ALL -static-libgcc
    $<$<LINK_LANGUAGE:CXX,CUDA>:-static-libstdc++>)

function(s4_self_contained_folder)
    set(not_copied "")
    if(CUDAToolkit_FOUND)
        set(not_copied ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_LIBRARY_DIR})
    endif()
    add_custom_target(s4_folder ALL
        COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_SOURCE_DIR}/tests/golden ${PROJECT_BINARY_DIR}/golden
        COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/bench/device_report.sh ${PROJECT_BINARY_DIR}
        COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/gather_libraries.sh ${PROJECT_BINARY_DIR} ${not_copied}
        COMMENT "Libraries, golden cases and the report's script into the folder" VERBATIM)
    get_property(directories DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTY SUBDIRECTORIES)
    while(directories)
        list(POP_FRONT directories directory)
        get_property(inner DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
        list(APPEND directories ${inner})
        get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
        foreach(target IN LISTS targets)
            get_target_property(type ${target} TYPE)
            if(type MATCHES "EXECUTABLE|MODULE_LIBRARY")
                add_dependencies(s4_folder ${target})
            endif()
        endforeach()
    endwhile()
endfunction()
