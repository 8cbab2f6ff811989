#include "tests/support/packed_blocks.h"

#include <cstring>
#include <fstream>

#include "heddle/core/base/dtype.h"
#include "heddle/data/bpe_text.h"
#include "heddle/data/unicode.h"
#include "heddle/io/write_gguf.h"

namespace heddle::test {
namespace {

class Numbers {
 public:
  explicit Numbers(uint32_t seed) : state_(seed * 2654435761u + 12345u) {}
  uint32_t next() { return (state_ = state_ * 1664525u + 1013904223u) >> 8; }
  float fraction() { return static_cast<float>(next() % 1024) / 1024; }

 private:
  uint32_t state_;
};

void put_half(uint8_t* at, float value) {
  const uint16_t bits = f32_to_f16(value);
  at[0] = static_cast<uint8_t>(bits & 255);
  at[1] = static_cast<uint8_t>(bits >> 8);
}

// Where the scales of a block lie.
std::vector<size_t> places_of_scales(GgmlType type) {
  switch (type) {
    case GgmlType::q4_1:
    case GgmlType::q4_k:
      return {0, 2};
    case GgmlType::q6_k:
      return {208};
    default:
      return {0};
  }
}

float size_of_scale(GgmlType type) {
  if (type == GgmlType::q4_k || type == GgmlType::q6_k) return 0.001F;
  return type == GgmlType::q8_0 ? 0.002F : 0.03F;
}

}  // namespace

std::vector<uint8_t> random_blocks(GgmlType type, int64_t elements, uint32_t seed) {
  const GgmlBlock& block = block_of(type);
  Numbers numbers(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(elements) / block.elements * block.bytes);
  for (size_t at = 0; at < bytes.size(); at += block.bytes) {
    if (type == GgmlType::f32) {
      const float value = numbers.fraction() - 0.5F;
      std::memcpy(bytes.data() + at, &value, 4);
    } else if (block.elements == 1) {
      const float value = numbers.fraction() - 0.5F;
      const uint16_t bits = type == GgmlType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
      std::memcpy(bytes.data() + at, &bits, 2);
    } else {
      for (size_t i = 0; i < block.bytes; ++i) bytes[at + i] = static_cast<uint8_t>(numbers.next());
      for (const size_t place : places_of_scales(type))
        put_half(bytes.data() + at + place, size_of_scale(type) * (numbers.fraction() - 0.5F));
    }
  }
  return bytes;
}

TinyLlamaFile::TinyLlamaFile(GgmlType type, bool tied) {
  constexpr int64_t width = 64, hidden = 96;
  texts = {{"general.architecture", "llama"}, {"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "smollm"}};
  numbers = {{"llama.context_length", 96},        {"llama.block_count", 2},
             {"llama.attention.head_count", 4},   {"llama.attention.head_count_kv", 2},
             {"llama.embedding_length", 64},      {"llama.feed_forward_length", 96},
             {"llama.rope.dimension_count", 16},  {"tokenizer.ggml.bos_token_id", 259},
             {"tokenizer.ggml.eos_token_id", 260}};
  reals = {{"llama.attention.layer_norm_rms_epsilon", 1e-5F}, {"llama.rope.freq_base", 1000}};
  for (const uint8_t byte : data::detail::bytes_in_order())
    tokens.push_back(data::utf8(data::detail::code_of_byte()[byte]));
  merges = {"t h", "th e", "a n"};
  for (const char* made : {"th", "the", "an", "<|begin|>", "<|end|>"}) tokens.emplace_back(made);
  types.assign(tokens.size(), 1);
  types[259] = types[260] = 3;
  uint32_t seed = 1;
  const auto add = [&](const std::string& name, GgmlType of, const Shape& shape) {
    tensors[name] = {of, shape, random_blocks(of, shape.numel(), seed++)};
  };
  add("token_embd.weight", type, {static_cast<int64_t>(tokens.size()), width});
  add("output_norm.weight", GgmlType::f32, {width});
  if (!tied) add("output.weight", type, {static_cast<int64_t>(tokens.size()), width});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    add(layer + "attn_norm.weight", GgmlType::f32, {width});
    add(layer + "ffn_norm.weight", GgmlType::f32, {width});
    for (const char* square : {"attn_q.weight", "attn_output.weight"}) add(layer + square, type, {width, width});
    for (const char* half : {"attn_k.weight", "attn_v.weight"}) add(layer + half, type, {width / 2, width});
    for (const char* grown : {"ffn_gate.weight", "ffn_up.weight"}) add(layer + grown, type, {hidden, width});
    add(layer + "ffn_down.weight", type, {width, hidden});
  }
}

std::vector<uint8_t> TinyLlamaFile::bytes() const {
  GgufWriter writer;
  for (const auto& [key, value] : texts) writer.add(key, value);
  for (const auto& [key, value] : numbers) writer.add(key, value);
  for (const auto& [key, value] : reals) writer.add(key, value);
  writer.add("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
  writer.add("tokenizer.ggml.merges", std::span<const std::string>(merges));
  writer.add("tokenizer.ggml.token_type", std::span<const int32_t>(types));
  for (const auto& [name, entry] : tensors) writer.add_tensor(name, entry.type, entry.shape, entry.bytes);
  return writer.bytes();
}

void TinyLlamaFile::write(const std::string& path) const {
  const std::vector<uint8_t> all = bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(all.data()), static_cast<std::streamsize>(all.size()));
}

}  // namespace heddle::test
