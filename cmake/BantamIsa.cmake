# One translation unit per instruction set, each with flags of its own (docs/add-an-isa.md).

function(bantam_isa name)
  add_library(bantam_isa_${name} OBJECT ${PROJECT_SOURCE_DIR}/src/simd/${name}.cpp)
  target_include_directories(bantam_isa_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(bantam_isa_${name} PRIVATE $<BUILD_INTERFACE:bantam_flags> xsimd)
  # Sanitizers check what is computed, not how fast: -O1 compiles in a tenth of the time.
  target_compile_options(bantam_isa_${name} PRIVATE -O3 ${ARGN} )
  if(BANTAM_SANITIZE)
    target_compile_options(bantam_isa_${name} PRIVATE -O1)
  endif()
  target_sources(bantam-core PRIVATE $<TARGET_OBJECTS:bantam_isa_${name}>)
  # For the tests that look inside.
  set(BANTAM_ISA_OBJECTS ${BANTAM_ISA_OBJECTS} $<TARGET_OBJECTS:bantam_isa_${name}> PARENT_SCOPE)
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  bantam_isa(generic -O2)
  bantam_isa(avx2 -march=x86-64-v3 -mtune=znver3)
  # gcc 12's allocator of registers spills codes inside the tiles' loops when it works region by region;
  # tests/layers/check_spills.sh watches it.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(whole_function -fira-region=one)
  endif()
  bantam_isa(avx512vnni -march=x86-64-v4 -mtune=znver3 -mavx512vnni -mavx512vbmi ${whole_function}
    -Wno-uninitialized -Wno-maybe-uninitialized)  # gcc 12 trips over its own intrinsics
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|ARM64")
  bantam_isa(generic -O2)
  bantam_isa(neon -march=armv8-a)
  bantam_isa(dotprod -march=armv8.2-a+dotprod)
else()
  bantam_isa(generic -O2)
endif()
