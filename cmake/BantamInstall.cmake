# What `cmake --install` puts where. Components are the packages that BantamPackages.cmake makes of them: program,
# library, dev, python. Nothing that is installed names the folder that it was installed into.
include(CMakePackageConfigHelpers)

# Portable binaries bring what they need beside the C and C++ runtime, if there is no static form of it: Debian's oneTBB is
# shared alone, and its static protobuf cannot go into shared libraries. Where all is static the C++ runtime is so too: a
# process should have one, and shared libraries link the shared one.
get_target_property(tbb_type TBB::tbb TYPE)
if(tbb_type STREQUAL "STATIC_LIBRARY" AND Protobuf_LITE_LIBRARY_RELEASE MATCHES "\\.a$")
  set(all_static ON)
endif()
set(dependencies "")
if(BANTAM_PORTABLE AND NOT all_static)
  set(dependencies RUNTIME_DEPENDENCY_SET bantam-dependencies)
endif()

# bantam_portable(TARGET FOLDER): for a target that is installed into FOLDER.
function(bantam_portable target folder)
  if(BANTAM_PORTABLE AND all_static)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  elseif(BANTAM_PORTABLE)
    file(RELATIVE_PATH libraries /${folder} /${CMAKE_INSTALL_LIBDIR})
    string(REGEX REPLACE "/$" "" libraries "${libraries}")
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries}")
  endif()
endfunction()

# The program, its completions, the model to try it with, and the documents.
if(BANTAM_CLI)
  bantam_portable(bantam ${CMAKE_INSTALL_BINDIR})
  install(TARGETS bantam ${dependencies} RUNTIME COMPONENT program)
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

# Two sets of targets: who links bantam::c needs nothing of what bantam::bantam needs.
bantam_portable(bantam-c ${CMAKE_INSTALL_LIBDIR})
install(TARGETS bantam-c EXPORT bantam-c-targets ${dependencies}
  LIBRARY COMPONENT library NAMELINK_COMPONENT dev)
install(TARGETS bantam-core EXPORT bantam-targets
  ARCHIVE COMPONENT dev)
set_target_properties(bantam-core PROPERTIES EXPORT_NAME bantam)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/bantam DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES ${PROJECT_SOURCE_DIR}/capi/bantam.h ${PROJECT_SOURCE_DIR}/capi/bantam-llama.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)

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
  bantam_portable(bantam-python ${BANTAM_PYTHON_FOLDER}/bantam)
  install(TARGETS bantam-python LIBRARY DESTINATION ${BANTAM_PYTHON_FOLDER}/bantam COMPONENT python)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/python/bantam DESTINATION ${BANTAM_PYTHON_FOLDER} COMPONENT python
    FILES_MATCHING PATTERN *.py PATTERN *.pyi PATTERN py.typed PATTERN __pycache__ EXCLUDE)
endif()

if(dependencies)
  install(RUNTIME_DEPENDENCY_SET bantam-dependencies
    PRE_EXCLUDE_REGEXES "^(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|gcc_s|stdc\\+\\+)\\.so)"
    LIBRARY COMPONENT library)
endif()
