# Installation: what goes where, for CMake and pkg-config; and how to be rid of it again. The command and the GPU module
# are installed by their own folders.
#
# Components: runtime (the shared library, the licence), development (headers, archive, s4.pc, CMake files), command, and
# gpu. The last is apart because the CUDA libraries may not be passed on combined with code under the GPL: whoever ships
# the others with FFTW leaves it out. Shared and static library go into one prefix, one build after the other.
include(CMakePackageConfigHelpers)

# ---- files -------------------------------------------------------------------------------------------------------------
if(BUILD_SHARED_LIBS)
    set(s4_kind shared)
else()
    set(s4_kind static)
endif()
set_target_properties(s4 PROPERTIES EXPORT_NAME ${s4_kind})
install(TARGETS s4 EXPORT s4_${s4_kind}_targets
    LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
    ARCHIVE COMPONENT development)
install(DIRECTORY include/s4 TYPE INCLUDE COMPONENT development)
install(FILES LICENSE TYPE DOC COMPONENT runtime)

# The command finds the library, and a static command the GPU module, wherever the prefix is. The module lies beside
# libs4.so, which looks there; it finds the CUDA libraries where they were at build time.
if(TARGET s4_command)
    file(RELATIVE_PATH s4_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(s4_command PROPERTIES INSTALL_RPATH "$ORIGIN/${s4_bin_to_lib}")
endif()
if(TARGET s4_gpu)
    set_target_properties(s4_gpu PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()

# ---- what a static library asks of its users -----------------------------------------------------------------------------
# The runtime of OpenMP by name: it belongs to the compiler that made the library, not to the one that links it.
set(S4_PC_REQUIRES_PRIVATE "fftw3 lapacke libcjson")
set(s4_link_flags "")
foreach(name IN LISTS OpenMP_C_LIB_NAMES)
    if(name STREQUAL "pthread")
        continue()
    endif()
    if(NOT name STREQUAL "gomp") # gcc's lies where every compiler looks
        cmake_path(GET OpenMP_${name}_LIBRARY PARENT_PATH folder)
        list(APPEND s4_link_flags -L${folder})
    endif()
    list(APPEND s4_link_flags -l${name})
endforeach()
foreach(name IN LISTS CMAKE_DL_LIBS ITEMS m)
    list(APPEND s4_link_flags -l${name})
endforeach()
if(NOT BUILD_SHARED_LIBS)
    foreach(item PkgConfig::s4_requirements Threads::Threads ${s4_link_flags})
        target_link_libraries(s4 INTERFACE $<INSTALL_INTERFACE:$<LINK_ONLY:${item}>>)
    endforeach()
endif()

# ---- pkg-config ----------------------------------------------------------------------------------------------------------
list(JOIN s4_link_flags " " S4_PC_LIBS_PRIVATE)
string(PREPEND S4_PC_LIBS_PRIVATE "-pthread ")
file(RELATIVE_PATH S4_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" S4_PC_TO_PREFIX "${S4_PC_TO_PREFIX}")
foreach(folder LIBDIR INCLUDEDIR)
    set(S4_PC_${folder} ${CMAKE_INSTALL_${folder}})
    if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
        set(S4_PC_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
    endif()
endforeach()
configure_file(cmake/s4.pc.in ${PROJECT_BINARY_DIR}/install/s4.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/install/s4.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# ---- find_package --------------------------------------------------------------------------------------------------------
set(s4_cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/s4)
configure_package_config_file(cmake/s4Config.cmake.in ${PROJECT_BINARY_DIR}/install/s4Config.cmake
    INSTALL_DESTINATION ${s4_cmake_folder} NO_SET_AND_CHECK_MACRO)
if(PROJECT_VERSION_MAJOR EQUAL 0) # as the SONAME does
    set(s4_compatibility SameMinorVersion)
else()
    set(s4_compatibility SameMajorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/install/s4ConfigVersion.cmake COMPATIBILITY ${s4_compatibility})
install(FILES ${PROJECT_BINARY_DIR}/install/s4Config.cmake ${PROJECT_BINARY_DIR}/install/s4ConfigVersion.cmake
    DESTINATION ${s4_cmake_folder} COMPONENT development)
install(EXPORT s4_${s4_kind}_targets NAMESPACE s4:: DESTINATION ${s4_cmake_folder} COMPONENT development)

# ---- uninstall -----------------------------------------------------------------------------------------------------------
if(PROJECT_IS_TOP_LEVEL)
    configure_file(cmake/uninstall.cmake.in ${PROJECT_BINARY_DIR}/install/uninstall.cmake @ONLY)
    add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${PROJECT_BINARY_DIR}/install/uninstall.cmake)
endif()
