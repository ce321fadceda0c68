# One translation unit per instruction set, each with flags of its own (docs/add-an-isa.md).

# bantam_isa(NAME RUNS FLAGS...): the table NAME. RUNS: whether the machine that builds runs it. Where it does not,
# sanitized builds leave it out: they are for running.
function(bantam_isa name runs)
  if(BANTAM_SANITIZE AND NOT runs)
    return()
  endif()
  add_library(bantam_isa_${name} OBJECT ${PROJECT_SOURCE_DIR}/src/simd/${name}.cpp)
  target_include_directories(bantam_isa_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(bantam_isa_${name} PRIVATE $<BUILD_INTERFACE:bantam_flags> xsimd)
  target_compile_options(bantam_isa_${name} PRIVATE -O3 ${ARGN})
  if(BANTAM_SANITIZE)
    # Kernels are loops over small arrays of registers, and take no address of what lies in a scope: without marks where scopes begin
    # and end they compile in less than half of the time, and run twice as fast. Bounds are watched as everywhere. With -O1 they compile in
    # seven tenths of the time, and run five times as long.
    target_compile_options(bantam_isa_${name} PRIVATE -O2 -fno-sanitize-address-use-after-scope)
  endif()
  if(BANTAM_SANITIZE MATCHES "fuzzer")
    # Instrumented by clang each unit would take minutes. The dev build runs kernels under sanitizers; the fuzzer of kernels puts
    # what they read in front of pages that nobody may touch.
    target_link_libraries(bantam_isa_${name} PRIVATE $<BUILD_INTERFACE:bantam_uninstrumented>)
    # The same results: nothing is fused by the compiler. Six tenths of the time to compile.
    target_compile_options(bantam_isa_${name} PRIVATE -O1)
  endif()
  target_sources(bantam-core PRIVATE $<TARGET_OBJECTS:bantam_isa_${name}>)
  target_compile_definitions(bantam-core PRIVATE BANTAM_ISA_${name})
  # For the tests that look inside.
  set(BANTAM_ISA_OBJECTS ${BANTAM_ISA_OBJECTS} $<TARGET_OBJECTS:bantam_isa_${name}> PARENT_SCOPE)
endfunction()

# Behind bantam_flags: the last word on a command line counts.
add_library(bantam_uninstrumented INTERFACE)
target_compile_options(bantam_uninstrumented INTERFACE -fno-sanitize=all -fno-omit-frame-pointer)

# What the machine that builds can run, by the system's names of features.
set(features "")
if(EXISTS /proc/cpuinfo AND NOT CMAKE_CROSSCOMPILING)
  file(STRINGS /proc/cpuinfo features LIMIT_COUNT 1 REGEX "^(flags|Features)")
endif()
function(bantam_runs feature result)
  set(${result} OFF PARENT_SCOPE)
  if(features MATCHES "[ \t]${feature}( |$)")
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  bantam_runs(avx2 runs_avx2)
  bantam_runs(avx_vnni runs_avx2vnni)
  bantam_runs(avx512bw runs_avx512)
  bantam_runs(avx512_vnni runs_avx512vnni)
  bantam_runs(amx_int8 runs_amx)
  # gcc 12's allocator of registers spills codes inside the tiles' loops when it works region by region;
  # tests/layers/check_spills.sh watches it.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(whole_function -fira-region=one)
    set(quiet -Wno-uninitialized -Wno-maybe-uninitialized)  # gcc 12 trips over its own AVX-512 intrinsics
  endif()
  bantam_isa(generic ON -O2)
  bantam_isa(avx2 ${runs_avx2} -march=x86-64-v3 -mtune=znver3)
  # A table is one of two kinds of registers and one of two ways to multiply (docs/add-an-isa.md). avx2 and avx512vnni hold all four:
  # the other two are left to optimized builds where the machine runs these. Where it does not run avx512vnni, sanitized builds spell
  # the instruction of avx2vnni out.
  if(NOT BANTAM_SANITIZE)
    bantam_isa(avx2vnni ${runs_avx2vnni} -march=x86-64-v3 -mavxvnni -mtune=alderlake)
    bantam_isa(avx512 ${runs_avx512} -march=x86-64-v4 -mtune=skylake-avx512 ${quiet})
  elseif(NOT runs_avx512vnni)
    target_compile_definitions(bantam-core PRIVATE BANTAM_VNNI_EMULATED)
    bantam_isa(avx2vnni ${runs_avx2} -march=x86-64-v3 -DBANTAM_VNNI_EMULATED)
  endif()
  bantam_isa(avx512vnni ${runs_avx512vnni} -march=x86-64-v4 -mtune=znver3 -mavx512vnni -mavx512vbmi ${whole_function} ${quiet})
  # Where the machine runs avx512vnni and has no tiles, sanitized builds spell them out.
  if(BANTAM_SANITIZE AND runs_avx512vnni AND NOT runs_amx)
    target_compile_definitions(bantam-core PRIVATE BANTAM_AMX_EMULATED)
    set(amx_flags -DBANTAM_AMX_EMULATED)
    set(runs_amx ON)
  else()
    set(amx_flags -mamx-tile -mamx-int8)
  endif()
  bantam_isa(amx ${runs_amx} -march=x86-64-v4 -mtune=znver3 -mavx512vnni -mavx512vbmi ${amx_flags} ${whole_function} ${quiet})
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|ARM64")
  bantam_isa(generic ON -O2)
  bantam_isa(neon ON -march=armv8-a)
  bantam_isa(dotprod ON -march=armv8.2-a+dotprod)
else()
  bantam_isa(generic ON -O2)
endif()
