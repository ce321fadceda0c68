# `cpack -G DEB` makes a package of each component of BantamInstall.cmake, `cpack -G TGZ` one archive of all.

set(CPACK_PACKAGE_NAME bantam)
set(CPACK_PACKAGE_VENDOR bantam)
set(CPACK_PACKAGE_CONTACT "bantam maintainers <maintainers@bantam.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME bantam-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)

set(CPACK_COMPONENTS_ALL library dev)
if(BANTAM_CLI)
  list(APPEND CPACK_COMPONENTS_ALL program)
endif()
if(TARGET bantam-grpc)
  list(APPEND CPACK_COMPONENTS_ALL grpc)
endif()
if(TARGET bantam-python)
  list(APPEND CPACK_COMPONENTS_ALL python)
endif()

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
# Debian's places differ from an archive's only in the folder above them.
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/BantamCpack.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/BantamCopyright.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME bantam)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "The program, completions for three shells, a small model to try it with, and the documents.")

set(CPACK_DEBIAN_GRPC_PACKAGE_NAME bantam-grpc)
set(CPACK_DEBIAN_GRPC_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_GRPC_DEPENDS program)
set(CPACK_COMPONENT_GRPC_DESCRIPTION "What `bantam serve --grpc-port` needs, and the proto that its clients are made from.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libbantam${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "The shared library with the C interface.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libbantam-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEV_DEPENDS library)
# The static C++ library needs them to be linked, the C interface does not.
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "libtbb-dev, libpcre2-dev, libutf8proc-dev, libprotobuf-dev, pkg-config")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers of the C and the C++ interface, the static C++ library, and files for CMake and pkg-config.")

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-bantam)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "The Python package.")
if(TARGET bantam-python)
  # The module is of one minor version of Python.
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" python_version ${BANTAM_PYTHON_VERSION})
  math(EXPR next_minor "${CMAKE_MATCH_2} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
    "python3 (>= ${python_version}), python3 (<< ${CMAKE_MATCH_1}.${next_minor}), python3-numpy")
endif()

include(CPack)
