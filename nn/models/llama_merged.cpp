#include "heddle/nn/models/llama_merged.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/ggml_quantise.h"
#include "heddle/nn/models/llama_gguf_options.h"
#include "heddle/nn/models/llama_merged_rows.h"

namespace heddle::nn {
namespace {

using Parts = std::vector<StoredPart>;

[[noreturn]] void fail(std::string_view what) { throw ValueError(fmt::format("[export] {}", what)); }

// "general.file_type": what most of a file is in, by llama.cpp's numbers.
uint32_t file_type_of(GgmlType type) {
  constexpr std::array<std::pair<GgmlType, uint32_t>, 8> numbers = {{{GgmlType::f32, 0},
                                                                     {GgmlType::f16, 1},
                                                                     {GgmlType::q4_0, 2},
                                                                     {GgmlType::q4_1, 3},
                                                                     {GgmlType::q8_0, 7},
                                                                     {GgmlType::q4_k, 14},
                                                                     {GgmlType::q6_k, 18},
                                                                     {GgmlType::bf16, 32}}};
  return std::ranges::find(numbers, type, &std::pair<GgmlType, uint32_t>::first)->second;
}

void add_kind(GgufWriter& writer, GgmlType type) {
  if (type == GgmlType::nf4) fail("no GGUF file has blocks of NF4");
  writer.add("general.file_type", file_type_of(type));
  writer.add("general.quantization_version", uint32_t{2});
}

// The one network of this library as an architecture of GGUF; others need metadata that is not written.
const char* architecture_of(const LlamaOptions& o) {
  const bool plain = !o.norms_behind && !o.norm_around_one && !o.gelu && o.embedding_scale == 1 && o.score_scale == 0 &&
                     o.score_cap == 0 && o.logit_cap == 0 && o.window == 0 && o.rope_size == 0;
  const char* name = o.qkv_bias ? "qwen2" : o.head_norms ? "qwen3" : "llama";
  const bool one = !(o.qkv_bias && o.head_norms) && (o.rope_factors.empty() || name == std::string_view("llama"));
  if (!plain || !one)
    fail(
        "a model of this family is written as a folder: no .gguf in the name of the output; llama, qwen2 and qwen3 "
        "become GGUF");
  return name;
}

void add_options(GgufWriter& writer, const LlamaOptions& o, const std::string& architecture) {
  const auto size = [&](const char* key, int64_t value) {
    writer.add(fmt::format("{}.{}", architecture, key), static_cast<uint32_t>(value));
  };
  const auto number = [&](const char* key, double value) {
    writer.add(fmt::format("{}.{}", architecture, key), static_cast<float>(value));
  };
  writer.add("general.architecture", architecture);
  size("context_length", o.context);
  size("block_count", o.layers);
  size("embedding_length", o.width);
  size("feed_forward_length", o.hidden);
  size("attention.head_count", o.heads);
  size("attention.head_count_kv", o.key_heads);
  size("attention.key_length", o.size_of_head());
  size("attention.value_length", o.size_of_head());
  size("rope.dimension_count", o.size_of_head());
  size("vocab_size", o.vocabulary);
  number("attention.layer_norm_rms_epsilon", o.eps);
  number("rope.freq_base", o.rope_base);
}

}  // namespace

MergedTypes save_merged(const std::string& path, const Gguf& base, const std::string& base_path, const Lora* adapters,
                        const MergedForm& form) {
  const GgufLlama llama = gguf_llama(base, base_path);
  std::map<std::string, Parts> parts;
  for (auto& [name, own] : parts_of(llama.options, llama.fused)) parts[gguf_name(name, llama.options)] = own;
  GgufWriter writer;
  for (const auto& [key, value] : base.metadata()) {
    if (form.type && (key == "general.file_type" || key == "general.quantization_version")) continue;
    writer.add(key, value);
  }
  if (form.type) add_kind(writer, *form.type);
  const std::string last = llama.options.tied ? "token_embd.weight" : "output.weight";
  MergedTypes types;
  for (const GgufTensor& tensor : base.tensors()) {
    const Parts& own = parts[tensor.name];
    const bool adapted = is_adapted(own, adapters), stays = own.empty() || !form.type;
    const GgmlType type = stays ? tensor.type : fitting_type(*form.type, tensor.shape, tensor.name == last);
    ++types[type];
    if (!adapted && type == tensor.type) {
      writer.add_tensor(tensor.name, type, tensor.shape, tensor.bytes);
      continue;
    }
    writer.add_made_tensor(tensor.name, type, tensor.shape, [&tensor, &own, &llama, adapters, type] {
      std::vector<float> values = tensor.dequantised();
      put_merged(own, adapters, llama.options, llama.paired, values);
      return quantise(type, values);
    });
  }
  writer.write(path);
  return types;
}

MergedTypes save_merged_gguf(const std::string& path, const LlamaFolder& base, const Lora* adapters, GgufWriter writer,
                             const MergedForm& form) {
  const LlamaConfig& config = base.config();
  const LlamaOptions& o = config.options;
  const std::string architecture = architecture_of(o);
  const bool paired = architecture == "llama";
  add_options(writer, o, architecture);
  const GgmlType wanted = form.type.value_or(GgmlType::f16);
  add_kind(writer, wanted);
  if (!config.ends.empty()) writer.add("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(config.ends[0]));
  const std::map<std::string, Parts> parts = parts_of(o, config.fused);
  if (config.fused) fail("matrices of several projections are not written in GGUF's order; write a folder");
  const std::string last = o.tied ? "model.embed_tokens.weight" : "lm_head.weight";
  MergedTypes types;
  for (const auto& [name, own] : parts) {
    const TensorBytes& tensor = base.stored(name);
    const GgmlType type = fitting_type(wanted, tensor.shape, name == last);
    ++types[type];
    writer.add_made_tensor(gguf_name(name, o), type, tensor.shape, [&, type, name = name, own = own, &tensor = tensor] {
      std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
      dequantise(ggml_type_of(tensor.dtype), tensor.bytes, values);
      put_merged(own, adapters, o, false, values);
      const int64_t heads = paired ? heads_of(name, o) : 0;
      if (heads > 0) put_in_pairs(values, heads, tensor.shape[0]);
      return quantise(type, values);
    });
  }
  const std::vector<float> factors(o.rope_factors.begin(), o.rope_factors.end());
  const std::vector<uint8_t> bytes = quantise(GgmlType::f32, factors);
  if (!factors.empty())
    writer.add_tensor(gguf_rope_factors, GgmlType::f32, {static_cast<int64_t>(factors.size())}, bytes);
  writer.write(path);
  return types;
}

}  // namespace heddle::nn
