# cmake -DNM=nm -DFILE=... -DKIND=library|archive|module -P check_symbols.cmake: what a file shows to a linker.
#   library  libs4.so: s4_ names and nothing else
#   archive  libs4.a: the same, if its internal names were made local (HIDDEN=ON); else s4_ and cpu_ names
#   module   libs4_gpu.so: its entry and nothing else
set(pattern "^s4_")
set(least 60) # the public headers declare more
set(options -D)
if(KIND STREQUAL "module")
    set(pattern "^s4_gpu_backend$")
    set(least 1)
elseif(KIND STREQUAL "archive")
    set(options -g)
    if(NOT HIDDEN) # and the locks of OpenMP's critical sections
        set(pattern "^(s4_|cpu_|\\.gomp_critical_user_cpu_)")
    endif()
endif()
execute_process(COMMAND ${NM} ${options} --defined-only ${FILE} OUTPUT_VARIABLE listing RESULT_VARIABLE result)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "${NM} failed on ${FILE}")
endif()
string(REGEX MATCHALL "[0-9a-fA-F]+ [A-Za-z] [^\n]+" lines "${listing}")
set(names 0)
foreach(line ${lines})
    string(REGEX REPLACE "^[0-9a-fA-F]+ ([A-Za-z]) ([^@\n]+).*$" "\\1;\\2" parts "${line}")
    list(GET parts 0 kind)
    list(GET parts 1 name)
    if(kind STREQUAL "A") # names of versions
        continue()
    endif()
    math(EXPR names "${names} + 1")
    if(NOT name MATCHES "${pattern}")
        message(SEND_ERROR "${FILE} exports ${name}")
    endif()
endforeach()
if(names LESS least)
    message(FATAL_ERROR "${FILE} exports ${names} names, too few")
endif()
message("${names} names, all as they should be")
