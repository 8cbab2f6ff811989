# The room onnx/: needs protobuf-lite, protoc and Debian's onnx.proto; HEDDLE_HAS_ONNX says whether it is there. What
# protoc makes stays inside of the library: a program may link its own ONNX.
if(HEDDLE_ONNX STREQUAL "OFF")
  set(HEDDLE_HAS_ONNX FALSE)
  heddle_left_out("ONNX models" "HEDDLE_ONNX=OFF")
  return()
endif()
find_path(HEDDLE_ONNX_PROTO onnx/onnx.proto)
find_path(HEDDLE_PROTOBUF_INCLUDE google/protobuf/message_lite.h)
find_library(HEDDLE_PROTOBUF_LITE protobuf-lite)
find_program(HEDDLE_PROTOC protoc)
mark_as_advanced(HEDDLE_ONNX_PROTO HEDDLE_PROTOBUF_INCLUDE HEDDLE_PROTOBUF_LITE HEDDLE_PROTOC)
set(HEDDLE_HAS_ONNX FALSE)
if(HEDDLE_ONNX_PROTO AND HEDDLE_PROTOBUF_INCLUDE AND HEDDLE_PROTOBUF_LITE AND HEDDLE_PROTOC)
  heddle_compiles(HEDDLE_HAS_ONNX why protobuf INCLUDES ${HEDDLE_PROTOBUF_INCLUDE} LIBRARIES ${HEDDLE_PROTOBUF_LITE} Threads::Threads)
else()
  set(why "not found (libonnx-dev, libprotobuf-dev, protobuf-compiler)")
endif()
if(NOT HEDDLE_HAS_ONNX)
  heddle_left_out("ONNX models (protobuf)" "${why}")
  return()
endif()

set(folder ${PROJECT_BINARY_DIR}/generated/onnx)
file(MAKE_DIRECTORY ${folder})
add_custom_command(
  OUTPUT ${folder}/onnx.pb.cc ${folder}/onnx.pb.h
  COMMAND ${HEDDLE_PROTOC} --cpp_out=lite:${folder} -I${HEDDLE_ONNX_PROTO}/onnx ${HEDDLE_ONNX_PROTO}/onnx/onnx.proto
  DEPENDS ${HEDDLE_ONNX_PROTO}/onnx/onnx.proto
  COMMENT "protoc: onnx.proto" VERBATIM)
add_library(heddle_onnx_proto OBJECT ${folder}/onnx.pb.cc)
target_include_directories(heddle_onnx_proto SYSTEM PUBLIC ${folder} ${HEDDLE_PROTOBUF_INCLUDE})
set_target_properties(heddle_onnx_proto PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_compile_options(heddle_onnx_proto PRIVATE -w)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/onnx/*.cpp)
# Objects by themselves: what they compile with is said of all, and files with options of their own are never one unit.
add_library(heddle_onnx OBJECT ${sources})
heddle_warnings(heddle_onnx)
target_include_directories(heddle_onnx PRIVATE ${HEDDLE_INCLUDE_ROOT})
target_link_libraries(heddle_onnx PRIVATE heddle_onnx_proto fmt::fmt)
set_target_properties(heddle_onnx PROPERTIES POSITION_INDEPENDENT_CODE ON)
if(CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3")
  target_compile_options(heddle_onnx PRIVATE $<$<CONFIG:Release>:-O1>)  # records, computes nothing
endif()
heddle_precompile(heddle_onnx <fmt/format.h> <fmt/ranges.h> ${HEDDLE_STD_HEADERS})
heddle_units(heddle_onnx)
target_sources(heddle PRIVATE $<TARGET_OBJECTS:heddle_onnx> $<TARGET_OBJECTS:heddle_onnx_proto>)
target_link_libraries(heddle PRIVATE ${HEDDLE_PROTOBUF_LITE})
