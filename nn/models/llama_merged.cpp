#include "heddle/nn/models/llama_merged.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/ggml_quantise.h"
#include "heddle/nn/models/llama_gguf_options.h"
#include "heddle/nn/models/llama_merged_rows.h"

namespace heddle::nn {
namespace {

using StoredParts = std::vector<StoredPart>;

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
  if (type == GgmlType::nf4) throw ValueError("[export] no GGUF file has blocks of NF4");
  writer.add("general.file_type", file_type_of(type));
  writer.add("general.quantization_version", uint32_t{2});
}

// As GGUF has a tensor that stands by itself: norms with the 1 of 1 + w in them, rows in pairs.
void put_in_form(const std::string& name, const LlamaConfig& config, int64_t rows, std::vector<float>& values) {
  if (config.options.norm_around_one && name.ends_with("norm.weight")) {
    for (float& value : values) value += 1;
  }
  const int64_t heads = config.architecture == "llama" ? heads_of(name, config.options) : 0;
  if (heads > 0) put_in_pairs(values, heads, rows);
}

}  // namespace

MergedTypes save_merged(const std::string& path, const Gguf& base, const std::string& base_path, const Lora* adapters,
                        const MergedForm& form) {
  const GgufLlama llama = gguf_llama(base, base_path);
  std::map<std::string, StoredParts> parts;
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
    const StoredParts& own = parts[tensor.name];
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
  add_gguf_options(writer, config);
  const GgmlType wanted = form.type.value_or(GgmlType::f16);
  add_kind(writer, wanted);
  if (!config.ends.empty()) writer.add("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(config.ends[0]));
  const std::string last = o.tied ? "model.embed_tokens.weight" : "lm_head.weight";
  MergedTypes types;
  for (const auto& [name, own] : parts_of(o, config.fused)) {
    const TensorBytes& tensor = base.stored(name);
    const GgmlType type = fitting_type(wanted, tensor.shape, name == last);
    ++types[type];
    writer.add_made_tensor(gguf_name(name, o), type, tensor.shape, [&, type, name = name, own = own, &tensor = tensor] {
      std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
      dequantise(ggml_type_of(tensor.dtype), tensor.bytes, values);
      put_merged(own, adapters, o, false, values);
      put_in_form(name, config, tensor.shape[0], values);
      return quantise(type, values);
    });
  }
  writer.write(path);
  return types;
}

}  // namespace heddle::nn
