# Compiles the bundled calibration text into bantam-core: a program finds it wherever it is installed.

set(BANTAM_CALIBRATION_TEXT ${PROJECT_SOURCE_DIR}/models/calibration.txt)
set(BANTAM_CALIBRATION_CODE ${PROJECT_BINARY_DIR}/generated/calibrate/calibration_text.inc)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/generated/calibrate)

add_custom_command(
  OUTPUT ${BANTAM_CALIBRATION_CODE}
  COMMAND ${CMAKE_COMMAND} -DTEXT=${BANTAM_CALIBRATION_TEXT} -DCODE=${BANTAM_CALIBRATION_CODE} -P ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
  DEPENDS ${BANTAM_CALIBRATION_TEXT} ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
  COMMENT "Generating calibrate/calibration_text.inc"
  VERBATIM)

target_sources(bantam_computing PRIVATE ${BANTAM_CALIBRATION_CODE})
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/calibrate/default_calibration.cpp PROPERTIES
  OBJECT_DEPENDS ${BANTAM_CALIBRATION_CODE} INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/generated)
