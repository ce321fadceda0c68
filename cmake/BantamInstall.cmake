# What `cmake --install` puts where. Components are the packages that BantamPackages.cmake makes of them: program,
# library, dev, python, grpc. Nothing that is installed names the folder that it was installed into.
include(CMakePackageConfigHelpers)

# The program, its completions, the model to try it with, and the documents.
if(BANTAM_CLI)
  install(TARGETS bantam RUNTIME COMPONENT program)
  set(completions ${PROJECT_SOURCE_DIR}/src/cli/completions)
  install(FILES ${completions}/bantam.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME bantam COMPONENT program)
  install(FILES ${completions}/_bantam DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program)
  install(FILES ${completions}/bantam.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/models DESTINATION ${CMAKE_INSTALL_DATADIR}/bantam COMPONENT program)
  install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/LICENSE
    DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program FILES_MATCHING PATTERN *.md
    PATTERN reference EXCLUDE)
endif()

# What the program loads for gRPC, and what its clients are made from.
if(TARGET bantam-grpc)
  install(TARGETS bantam-grpc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/bantam COMPONENT grpc)
  install(FILES ${PROJECT_SOURCE_DIR}/src/server/grpc/bantam.proto DESTINATION ${CMAKE_INSTALL_DATADIR}/bantam COMPONENT grpc)
endif()

# Two sets of targets: who links bantam::c needs nothing of what bantam::bantam needs.
install(TARGETS bantam-c EXPORT bantam-c-targets
  LIBRARY COMPONENT library NAMELINK_COMPONENT dev)
install(TARGETS bantam-core EXPORT bantam-targets
  ARCHIVE COMPONENT dev)
set_target_properties(bantam-core PROPERTIES EXPORT_NAME bantam)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/bantam DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/capi/bantam.h ${PROJECT_SOURCE_DIR}/capi/bantam-llama.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
# llama.h and the helpers beside it, in a folder that only who wants them has on the include path.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/capi/llama/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bantam-llama COMPONENT dev)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/bantam)
install(EXPORT bantam-c-targets NAMESPACE bantam:: DESTINATION ${config_folder} COMPONENT dev)
install(EXPORT bantam-targets NAMESPACE bantam:: DESTINATION ${config_folder} COMPONENT dev)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/BantamConfig.cmake.in ${PROJECT_BINARY_DIR}/bantam-config.cmake
  INSTALL_DESTINATION ${config_folder})
# While the major number is 0, the second one says what goes together.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/bantam-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/bantam-config.cmake ${PROJECT_BINARY_DIR}/bantam-config-version.cmake
  DESTINATION ${config_folder} COMPONENT dev)

file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/bantam.pc.in ${PROJECT_BINARY_DIR}/bantam.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/bantam.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# Python: where Debian's python3 looks; in a wheel its top.
if(TARGET bantam-python)
  set(python_folder lib/python3/dist-packages)
  if(SKBUILD)
    set(python_folder .)
  endif()
  set(BANTAM_PYTHON_FOLDER ${python_folder} CACHE STRING "Where the Python package is installed, from the prefix")
  install(TARGETS bantam-python LIBRARY DESTINATION ${BANTAM_PYTHON_FOLDER}/bantam COMPONENT python)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/python/bantam DESTINATION ${BANTAM_PYTHON_FOLDER} COMPONENT python
    FILES_MATCHING PATTERN *.py PATTERN *.pyi PATTERN py.typed PATTERN __pycache__ EXCLUDE)
  install(FILES ${PROJECT_BINARY_DIR}/python/bantam/_compress_options.py DESTINATION ${BANTAM_PYTHON_FOLDER}/bantam COMPONENT python)
endif()
