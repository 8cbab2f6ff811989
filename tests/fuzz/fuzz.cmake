# heddle_fuzz: libFuzzer over every reader (target.h), with AddressSanitizer and UndefinedBehaviorSanitizer.
# The files that read are compiled again, with Clang and instrumented; the rest comes from the library that another
# build folder holds (HEDDLE_FUZZ, the release preset's): minutes become one. The program exports its symbols, so that
# the library calls the instrumented functions too.
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PNG REQUIRED)
find_library(TURBOJPEG_LIBRARY turbojpeg REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
set(readers
  core/base/cache_dir.cpp core/base/cache_files.cpp core/base/dlpack.cpp core/base/dtype.cpp core/base/files.cpp
  core/base/folders.cpp core/base/system/files_posix.cpp core/base/system/mapping_posix.cpp
  core/base/hash.cpp core/base/host_array.cpp core/base/json_walk.cpp core/base/parse_json.cpp core/base/shape.cpp
  core/base/shortened.cpp core/base/similar.cpp core/base/utf8.cpp core/base/view.cpp core/graph/dlpack.cpp
  core/inspect/saved_launch.cpp core/functions/linalg/einsum.cpp
  core/dialect/expression.cpp core/dialect/kernel_file.cpp core/dialect/kernel_file_parser.cpp
  core/contract/kernel_binary.cpp core/contract/kernel_source.cpp core/run/image.cpp core/run/image_bytes.cpp
  core/tiles/tuning_table.cpp core/dialect/user_text.cpp
  data/array.cpp data/bpe.cpp data/bpe_text.cpp data/bpe_train.cpp data/chat.cpp data/chat_encode.cpp
  data/chat_flow.cpp data/chat_recognise.cpp data/chat_records.cpp data/chat_rows.cpp data/chat_template.cpp
  data/cifar.cpp data/csv.cpp data/dataset.cpp
  data/idx.cpp data/image_file.cpp data/image_jpeg.cpp data/image_png.cpp data/numpy.cpp data/preprocess.cpp
  data/records.cpp
  data/text.cpp data/tokenizer.cpp data/tokenizer_file.cpp data/tokenizers/cut.cpp data/tokenizers/pair_merger.cpp
  data/tokenizers/piece_models.cpp data/tokenizers/pipeline.cpp data/tokenizers/pipeline_tokenizer.cpp
  data/tokenizers/prefix_index.cpp data/tokenizers/read_pipeline.cpp data/tokenizers/read_stages.cpp
  data/tokenizers/scored_merges.cpp data/tokenizers/write_pipeline.cpp data/transforms.cpp data/unicode.cpp
  data/unicode_composed.cpp data/word_patterns.cpp data/words.cpp
  io/atomic_file.cpp io/file_bytes.cpp core/base/ggml_types.cpp io/gguf.cpp io/gguf_reader.cpp io/inflate.cpp
  io/model_parts.cpp io/model_upgrade.cpp io/pickle.cpp io/read_file.cpp io/safetensors.cpp io/safetensors_header.cpp io/sha256.cpp
  io/torch_archive.cpp io/write_gguf.cpp io/write_model_parts.cpp io/zip.cpp
  nn/language_model.cpp nn/lora_files.cpp nn/models/config_reader.cpp nn/models/llama_families.cpp nn/models/llama_options.cpp
  nn/models/rotary.cpp runtime/golden.cpp runtime/model_image.cpp
  tools/report_run.cpp
  train/checkpoint.cpp train/config.cpp train/early_stopping.cpp train/model_file.cpp train/run_state.cpp
  train/toml.cpp)
file(GLOB targets CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
list(FILTER targets EXCLUDE REGEX "(smoke|mutate).cpp$")
# What protoc made for that build.
set(proto ${HEDDLE_FUZZ}/generated/onnx)
if(EXISTS ${proto}/onnx.pb.cc)
  find_library(PROTOBUF_LITE_LIBRARY protobuf-lite REQUIRED)
  list(APPEND readers onnx/check.cpp onnx/external.cpp onnx/host_tensor.cpp onnx/narrow_types.cpp onnx/package.cpp onnx/parse.cpp onnx/proto.cpp
       onnx/types.cpp onnx/wire.cpp)
else()
  list(FILTER targets EXCLUDE REGEX "/onnx.cpp$")
endif()
list(TRANSFORM readers PREPEND ${PROJECT_SOURCE_DIR}/)
add_executable(heddle_fuzz ${readers} ${targets} ${PROJECT_SOURCE_DIR}/tests/support/torch_file.cpp)
if(PROTOBUF_LITE_LIBRARY)
  target_sources(heddle_fuzz PRIVATE ${proto}/onnx.pb.cc)
  target_include_directories(heddle_fuzz SYSTEM PRIVATE ${proto})
  target_compile_definitions(heddle_fuzz PRIVATE HEDDLE_HAS_ONNX=1)
  target_link_libraries(heddle_fuzz PRIVATE ${PROTOBUF_LITE_LIBRARY})
endif()
target_include_directories(heddle_fuzz PRIVATE ${HEDDLE_INCLUDE_ROOT} ${PROJECT_SOURCE_DIR})
target_include_directories(heddle_fuzz SYSTEM PRIVATE ${TOMLPLUSPLUS_INCLUDE_DIR})
target_compile_definitions(heddle_fuzz PRIVATE HEDDLE_HAS_PNG=1 HEDDLE_HAS_JPEG=1 HEDDLE_HAS_UTF8PROC=1)
set_source_files_properties(${PROJECT_SOURCE_DIR}/core/base/cache_files.cpp PROPERTIES COMPILE_DEFINITIONS
  HEDDLE_VERSION="${PROJECT_VERSION}")
set_target_properties(heddle_fuzz PROPERTIES ENABLE_EXPORTS ON BUILD_RPATH ${HEDDLE_FUZZ}/lib)
# vptr: types of the library are not instrumented.
set(sanitizers -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all)
target_compile_options(heddle_fuzz PRIVATE ${sanitizers} -fsanitize=fuzzer-no-link -fno-omit-frame-pointer)
target_link_options(heddle_fuzz PRIVATE ${sanitizers} -fsanitize=fuzzer)
target_link_libraries(heddle_fuzz PRIVATE ${HEDDLE_FUZZ}/lib/libheddle.so fmt::fmt nlohmann_json::nlohmann_json
  CLI11::CLI11 Threads::Threads ZLIB::ZLIB PNG::PNG ${TURBOJPEG_LIBRARY}
  ${UTF8PROC_LIBRARY})
