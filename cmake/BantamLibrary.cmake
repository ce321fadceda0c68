# bantam::bantam: the headers and the static libbantam-core.a that holds what must be compiled once.

find_package(xsimd REQUIRED)
find_package(TBB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

file(GLOB_RECURSE BANTAM_SOURCES CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/src/*.cpp)
list(FILTER BANTAM_SOURCES EXCLUDE REGEX "/src/(cli|server|simd)/")

# Compiled once for the library and for the module of gRPC, which has nothing else of it.
set(BANTAM_JSON_SOURCES ${PROJECT_SOURCE_DIR}/src/io/json.cpp ${PROJECT_SOURCE_DIR}/src/core/hash.cpp)
list(REMOVE_ITEM BANTAM_SOURCES ${BANTAM_JSON_SOURCES})
add_library(bantam_json OBJECT ${BANTAM_JSON_SOURCES})
target_include_directories(bantam_json PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(bantam_json PRIVATE bantam_flags bantam_covered nlohmann_json::nlohmann_json)

# What computes, and reads no input: its loops do without the calls that direct fuzzers.
set(BANTAM_COMPUTING_SOURCES ${BANTAM_SOURCES})
list(FILTER BANTAM_COMPUTING_SOURCES INCLUDE REGEX "/src/(calibrate|compress|nn|prune|quant|report)/")
list(REMOVE_ITEM BANTAM_SOURCES ${BANTAM_COMPUTING_SOURCES})
add_library(bantam_computing OBJECT ${BANTAM_COMPUTING_SOURCES})
target_include_directories(bantam_computing PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(bantam_computing PRIVATE TBB::tbb bantam_flags nlohmann_json::nlohmann_json Eigen3::Eigen)
bantam_unity(bantam_computing)
if(BANTAM_SANITIZE)
  # Where the rest of the dev preset has -Og: tests wait for these loops.
  target_compile_options(bantam_computing PRIVATE -O1)
endif()

add_library(bantam-core STATIC ${BANTAM_SOURCES} $<TARGET_OBJECTS:bantam_json> $<TARGET_OBJECTS:bantam_computing>)
add_library(bantam::bantam ALIAS bantam-core)
target_include_directories(bantam-core PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(bantam-core PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_features(bantam-core PUBLIC cxx_std_20)
# Loops over floats whose lengths are not known: GCC makes vectors of them from -O3 on only. Debugging waits for them most.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/calibrate/once.cpp ${PROJECT_SOURCE_DIR}/src/compress/once.cpp PROPERTIES COMPILE_OPTIONS $<IF:$<CONFIG:Release>,-O3,-O2>)
# Blocks that another version rounded are not gone on with; GPTQ folders name what made them.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/compress/journal.cpp ${PROJECT_SOURCE_DIR}/src/compress/packed/gptq.cpp PROPERTIES COMPILE_DEFINITIONS BANTAM_VERSION="${PROJECT_VERSION}")
# What is linked into programs goes on to who installs the library (BantamConfig.cmake.in finds it there); headers do not.
target_link_libraries(bantam-core
  PUBLIC Threads::Threads
  PRIVATE TBB::tbb PkgConfig::PCRE2 PkgConfig::UTF8PROC
          $<BUILD_INTERFACE:bantam_flags> $<BUILD_INTERFACE:bantam_covered> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json> $<BUILD_INTERFACE:Eigen3::Eigen>
          $<BUILD_INTERFACE:PkgConfig::XXHASH>)

bantam_unity(bantam-core)
include(BantamCalibration)
include(BantamProto)
include(BantamIsa)
