# Flags for our own targets: warnings, sanitizers, ccache. Nothing here reaches a consumer.

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

option(BANTAM_WERROR "Warnings are errors" ${PROJECT_IS_TOP_LEVEL})
set(BANTAM_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
option(BANTAM_FUZZERS "Build the fuzzers, with the sanitizers of BANTAM_SANITIZE (presets dev and fuzz)" OFF)

# Most of the time that a file takes goes into the headers that its neighbors include too. Off where one file is edited for long.
option(BANTAM_UNITY "Compile the files of a folder up to sixteen at a time" ON)

# bantam_huge_pages(RESULT): where the system gives huge pages to who asks for them, what makes the compiler ask: a sixth to a fifth less
# time on virtual machines (docs/lab/ci.md).
function(bantam_huge_pages result)
  set(${result} "" PARENT_SCOPE)
  set(setting /sys/kernel/mm/transparent_hugepage/enabled)
  # Not CMAKE_C_COMPILER: a cross compiler runs here, and what it makes does not.
  find_program(BANTAM_HOST_CC NAMES cc gcc clang DOC "Compiles what runs on the machine that builds")
  if(NOT BANTAM_HOST_CC OR NOT EXISTS ${setting})
    return()
  endif()
  file(READ ${setting} choices)
  if(NOT choices MATCHES "\\[madvise\\]")
    return()
  endif()
  set(library ${CMAKE_BINARY_DIR}/huge_pages.so)
  execute_process(COMMAND ${BANTAM_HOST_CC} -O2 -shared -fPIC -o ${library} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/huge_pages.c
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(NOT failed)
    set(${result} LD_PRELOAD=${library} PARENT_SCOPE)
  endif()
endfunction()

# What starts the compiler; another project has its own.
if(PROJECT_IS_TOP_LEVEL)
  bantam_huge_pages(launcher)
  find_program(CCACHE ccache)
  if(CCACHE)
    # Paths below this folder count as relative ones, so that another clone or work tree of it finds what this one compiled.
    list(APPEND launcher CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  endif()
  if(launcher)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${launcher})
    set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()

add_library(bantam_flags INTERFACE)
target_compile_options(bantam_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<BOOL:${BANTAM_WERROR}>:-Werror>
  # Files that are compiled together look like headers of each other: what one calls its own may have another's name.
  $<IF:$<BOOL:${BANTAM_UNITY}>,$<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>,-Wshadow>
  $<$<AND:$<BOOL:${BANTAM_UNITY}>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-subobject-linkage>
  # A false positive of gcc 12 on string concatenation (its bug 105329).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # Results must not depend on what the compiler chooses to fuse: every fma is written out.
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  # __FILE__ begins at this folder, wherever the clone is.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
# The compiler's collector of garbage takes a twentieth of the time unless it is let wait; there is memory for that where every core has 4 GB.
cmake_host_system_information(RESULT host_megabytes QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT host_cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR megabytes_a_core "${host_megabytes} / ${host_cores}")
if(megabytes_a_core GREATER_EQUAL 3500)
  target_compile_options(bantam_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
endif()
# Eigen's alignment ABI would otherwise change with -m flags (docs/lab/runtime.md, traps).
target_compile_definitions(bantam_flags INTERFACE EIGEN_MAX_ALIGN_BYTES=64)
if(BANTAM_SANITIZE)
  target_compile_options(bantam_flags INTERFACE -fsanitize=${BANTAM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(BANTAM_SANITIZE MATCHES "fuzzer")
    set(ignored ${PROJECT_SOURCE_DIR}/tests/fuzz/uninstrumented.txt)
    target_compile_options(bantam_flags INTERFACE -fsanitize-ignorelist=${ignored} -fsanitize-coverage-ignorelist=${ignored})
  endif()
  if(BANTAM_SANITIZE MATCHES "undefined" AND NOT BANTAM_SANITIZE MATCHES "fuzzer")
    # Checks of every pointer at every use, which take half of the time that gcc needs and a quarter of clang's. The address sanitizer sees
    # most of what they see; fuzzers that run for long make them all.
    target_compile_options(bantam_flags INTERFACE -fno-sanitize=null,alignment,object-size,vptr,pointer-overflow,nonnull-attribute,returns-nonnull-attribute)
  endif()
  target_link_options(bantam_flags INTERFACE -fsanitize=${BANTAM_SANITIZE})
  if(BANTAM_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The sanitizer's list of globals makes half a million relocations, a fifth of the time in which the program starts, and tests start it
    # by the thousand. At a fixed address there are none.
    target_link_options(bantam_flags INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  endif()
  target_compile_definitions(bantam_flags INTERFACE BANTAM_CHECKED)
endif()

# What fuzzers are directed by: code that reads what comes from outside says which of its blocks ran. With clang all code does (fuzzer-no-link).
add_library(bantam_covered INTERFACE)
if(BANTAM_FUZZERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_library(bantam_uncounted STATIC ${PROJECT_SOURCE_DIR}/tests/fuzz/libfuzzer/uncounted.c)
  target_compile_options(bantam_covered INTERFACE -fsanitize-coverage=trace-pc)
  target_link_libraries(bantam_covered INTERFACE bantam_uncounted)
endif()

# bantam_unity(TARGET): compiles its files in groups of up to sixteen, as equal as can be. A group stays within a folder, so that a name
# which an anonymous namespace holds need only be the one of its folder, and a new file moves its neighbors alone. Sixteen take four fifths of
# the time of twice eight; what edits one file waits for the others of its group.
function(bantam_unity target)
  if(NOT BANTAM_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(SORT sources)
  set(folders "")
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    list(APPEND folders "${folder}")
    list(APPEND "of_${folder}" ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    list(LENGTH "of_${folder}" files)
    math(EXPR groups "(${files} + 15) / 16")
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} "${folder}")
    string(REPLACE "/" "_" name "${name}")
    set(count 0)
    foreach(source IN LISTS "of_${folder}")
      math(EXPR group "${count} * ${groups} / ${files}")
      math(EXPR count "${count} + 1")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${group})
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# What a program that is not ours (an interpreter, another language's) needs around it to use sanitized libraries: the
# sanitizer's own library in front of its own; and what such a program keeps until it ends is no leak of ours.
set(BANTAM_SANITIZED_GUEST "")
if(BANTAM_SANITIZE MATCHES "address")
  set(runtime libasan.so)
elseif(BANTAM_SANITIZE MATCHES "thread")
  set(runtime libtsan.so)
endif()
if(DEFINED runtime)
  foreach(name IN ITEMS ${runtime} libstdc++.so)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND preloaded ${file})
  endforeach()
  list(JOIN preloaded " " preloaded)
  set(BANTAM_SANITIZED_GUEST "LD_PRELOAD=${preloaded}" ASAN_OPTIONS=detect_leaks=0)
endif()
