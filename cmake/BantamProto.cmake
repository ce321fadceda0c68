# Generates the reader of SentencePiece models from src/text/sentencepiece.proto into bantam-core.

set(BANTAM_PROTO_SOURCE ${PROJECT_SOURCE_DIR}/src/text/sentencepiece.proto)
set(BANTAM_PROTO_FOLDER ${PROJECT_BINARY_DIR}/generated)
set(BANTAM_PROTO_CODE
  ${BANTAM_PROTO_FOLDER}/text/sentencepiece.pb.cc
  ${BANTAM_PROTO_FOLDER}/text/sentencepiece.pb.h)
file(MAKE_DIRECTORY ${BANTAM_PROTO_FOLDER})

add_custom_command(
  OUTPUT ${BANTAM_PROTO_CODE}
  COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR}/src --cpp_out=${BANTAM_PROTO_FOLDER} text/sentencepiece.proto
  DEPENDS ${BANTAM_PROTO_SOURCE}
  COMMENT "Generating text/sentencepiece.pb.cc"
  VERBATIM)

# Generated code is not ours to warn about: an object library of its own, without bantam_flags.
add_library(bantam_proto OBJECT ${BANTAM_PROTO_CODE})
target_compile_options(bantam_proto PRIVATE -w)
if(BANTAM_SANITIZE)
  target_compile_options(bantam_proto PRIVATE -fsanitize=${BANTAM_SANITIZE} -fno-omit-frame-pointer)
endif()
target_include_directories(bantam_proto SYSTEM PUBLIC ${BANTAM_PROTO_FOLDER} ${Protobuf_INCLUDE_DIRS})

target_sources(bantam-core PRIVATE $<TARGET_OBJECTS:bantam_proto>)
target_include_directories(bantam-core SYSTEM PRIVATE ${BANTAM_PROTO_FOLDER})
target_link_libraries(bantam-core PRIVATE protobuf::libprotobuf-lite)
add_dependencies(bantam-core bantam_proto)
