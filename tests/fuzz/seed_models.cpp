// Models as others make them.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/io/write_gguf.h"
#include "heddle/io/write_model_parts.h"
#include "heddle/nn/lora_files.h"
#include "heddle/runtime/golden.h"
#include "heddle/runtime/model_image.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"
#include "tests/support/torch_file.h"

namespace heddle::fuzz {

nn::Llama adapted_model() {
  const nn::LlamaOptions tiny{
      .vocabulary = 4, .context = 4, .layers = 1, .heads = 1, .key_heads = 1, .width = 4, .hidden = 4};
  return nn::Llama(tiny, {.device = device("null:0")});
}

Seeds model_parts_seeds() {
  const std::vector<uint8_t> weights(70, 3);
  const std::vector<ModelPart> several = {
      {.name = "graph", .kind = PartKind::graph, .bytes = bytes_of("{}")},
      {.name = "w", .kind = PartKind::weights, .bytes = weights, .attributes = {{"dtype", "f32"}}},
      {.name = "i", .kind = PartKind::image, .bytes = bytes_of("code"), .target = "cuda:sm_80", .bucket = "N=8"}};
  Seeds seeds;
  for (const std::vector<uint8_t>& file : {model_parts_bytes(several, {{"model", "net"}}), model_parts_bytes({})})
    seeds.emplace_back(file.begin(), file.end());
  return seeds;
}

Seeds model_image_seeds() {
  ModelImage image;
  image.device = "opencl:0";
  image.image.target = "opencl";
  image.image.input_bytes = {16, 24, 8};
  image.image.own_bytes = {16};
  image.image.host_values = 1;
  GraphImage::Output output;
  output.view = View::dense({2, 2});
  image.image.outputs = {output};
  image.inputs = {{"x", DType::f32, {2, 2}, 0}, {"unused", DType::i64, {3}, -1}};
  image.outputs = {{"y", DType::f32, {2, 2}, 0}};
  image.weights = {{1, "weights", 64, 24}, {2, "constants", 0, 8}};
  image.host_words = {1, 2, 3, 4};
  const std::vector<uint8_t> bytes = model_image_bytes(image);
  return {std::string(bytes.begin(), bytes.end())};
}

Seeds golden_seeds() {
  const Golden golden{"reference:0", 3, {{"x", DType::u8, {2}, {1, 2}}}, {{"y", DType::f32, {1}, {0, 0, 0x80, 0x3f}}}};
  const std::vector<uint8_t> bytes = golden_bytes(golden);
  return {std::string(bytes.begin(), bytes.end())};
}

Seeds gguf_seeds() {
  const std::vector<uint8_t> blocks(420, 1);
  GgufWriter several;
  several.add("general.architecture", "llama");
  several.add("general.alignment", uint32_t{64});
  several.add("yes", true);
  several.add("size", uint64_t{5});
  several.add("base", 10000.0);
  several.add("tokens", std::span<const std::string>(std::vector<std::string>{"a", "bc", ""}));
  several.add("ids", std::span<const int32_t>(std::vector<int32_t>{1, -1}));
  several.add_tensor("a", GgmlType::q6_k, {2, 256}, blocks);
  several.add_tensor("b", GgmlType::q4_k, {256}, std::span(blocks).first(144));
  several.add_tensor("c", GgmlType::bf16, {3, 1, 2}, std::span(blocks).first(12));
  Seeds seeds;
  for (const std::vector<uint8_t>& file : {several.bytes(), GgufWriter().bytes()})
    seeds.emplace_back(file.begin(), file.end());
  // Two arrays in an array, behind the head of a file with one key.
  std::string nested = seeds[1];
  nested[16] = 1;
  const auto put = [&](uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) nested.push_back(static_cast<char>(value >> (8 * i)));
  };
  nested.resize(24);
  for (const auto& [value, bytes] : std::vector<std::pair<uint64_t, size_t>>{
           {1, 8}, {'k', 1}, {9, 4}, {9, 4}, {2, 8}, {0, 4}, {3, 8}, {7, 3}, {8, 4}, {1, 8}, {2, 8}, {0, 2}})
    put(value, bytes);
  seeds.push_back(nested);
  return seeds;
}

Seeds torch_seeds() {
  const std::string turned = test::torch_state({.sizes = {3, 2}, .strides = {1, 3}, .offset = 2}, {"a", "b.weight"});
  const std::string storage(64, '\1');
  return {test::torch_state(), turned, test::torch_archive(turned, storage), test::legacy_torch_file(turned, storage)};
}

// adapter_config.json up to a NUL, adapter_model.safetensors behind it.
Seeds adapter_seeds() {
  Seeds seeds;
  for (const nn::LoraOptions& options :
       {nn::LoraOptions{.rank = 2, .targets = {"*"}},
        nn::LoraOptions{.rank = 1, .alpha = 0.5, .rank_stabilised = true, .dora = true, .targets = {"*.q_proj"}}}) {
    nn::Llama model = adapted_model();
    nn::save_peft(scratch("adapter-seed"), nn::Lora(model, options), "base");
    seeds.push_back(read_back(scratch("adapter-seed/adapter_config.json")) + '\0' +
                    read_back(scratch("adapter-seed/adapter_model.safetensors")));
  }
  return seeds;
}

}  // namespace heddle::fuzz
