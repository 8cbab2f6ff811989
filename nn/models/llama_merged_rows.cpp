#include "heddle/nn/models/llama_merged_rows.h"

#include <algorithm>
#include <string_view>

#include "heddle/core/functions/functions.h"

namespace heddle::nn {
namespace {

// "model.layers.0.self_attn.q_proj" of its weight; empty for a bias, which no adapter changes.
std::string module_of(const std::string& name) {
  constexpr std::string_view end = ".weight";
  return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : "";
}

bool is_adapted(const std::string& name, const Lora* adapters) {
  if (adapters == nullptr) return false;
  const std::vector<std::string> paths = adapters->paths();
  return std::ranges::find(paths, module_of(name)) != paths.end();
}

}  // namespace

std::map<std::string, std::vector<StoredPart>> parts_of(const LlamaOptions& options, bool fused) {
  std::map<std::string, std::vector<StoredPart>> all;
  for (const auto& [name, stored] : stored_weights(options, fused)) all[stored.name].push_back({name, stored});
  return all;
}

bool is_adapted(const std::vector<StoredPart>& parts, const Lora* adapters) {
  return std::ranges::any_of(parts, [&](const StoredPart& part) { return is_adapted(part.name, adapters); });
}

int64_t heads_of(const std::string& name, const LlamaOptions& options) {
  if (name.find(".q_proj.") != std::string::npos) return options.heads;
  return name.find(".k_proj.") != std::string::npos ? options.key_heads : 0;
}

void put_in_pairs(std::vector<float>& rows, int64_t heads, int64_t count) {
  const auto width = static_cast<std::ptrdiff_t>(rows.size()) / count;
  const int64_t size = count / heads;
  std::vector<float> turned(rows.size());
  for (int64_t row = 0; row < count; ++row) {
    const int64_t head = row / size, s = row % size / (size / 2), i = row % (size / 2);
    std::copy_n(rows.begin() + row * width, width, turned.begin() + (head * size + 2 * i + s) * width);
  }
  rows = std::move(turned);
}

void put_merged(const std::vector<StoredPart>& parts, const Lora* adapters, const LlamaOptions& options, bool paired,
                std::vector<float>& values) {
  for (const auto& [name, stored] : parts) {
    if (!is_adapted(name, adapters)) continue;
    std::vector<float> rows = adapters->merged_weight(module_of(name)).to_vector<float>();
    const int64_t heads = paired ? heads_of(name, options) : 0;
    if (heads > 0) put_in_pairs(rows, heads, stored.rows);
    const auto width = static_cast<int64_t>(values.size()) / stored.shape[0];
    std::ranges::copy(rows, values.begin() + stored.first * width);
  }
}

GgmlType ggml_type_of(DType dtype) {
  if (dtype == DType::f16) return GgmlType::f16;
  return dtype == DType::bf16 ? GgmlType::bf16 : GgmlType::f32;
}

GgmlType fitting_type(GgmlType wanted, const Shape& shape, bool is_last) {
  if (shape.rank() < 2) return GgmlType::f32;
  const bool four_bits = wanted == GgmlType::q4_0 || wanted == GgmlType::q4_1 || wanted == GgmlType::q4_k;
  GgmlType type = is_last && four_bits ? GgmlType::q6_k : wanted;
  const int64_t inner = shape.dim(-1);
  const auto fits = [&](GgmlType of) { return inner % block_of(of).elements == 0; };
  if (!fits(type)) type = type == GgmlType::q4_k ? GgmlType::q4_1 : GgmlType::q8_0;
  return fits(type) ? type : GgmlType::f16;
}

}  // namespace heddle::nn
