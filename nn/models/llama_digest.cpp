#include "heddle/nn/models/llama_digest.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/io/sha256.h"

namespace heddle::nn {
namespace {

void add(Sha256& hash, std::string_view text) {
  hash.update(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

// Two bytes a value, the lower one first.
std::vector<uint8_t> bf16_of(const Tensor& weight, bool around_one) {
  std::vector<uint8_t> bytes;
  for (const float value : cast(weight, DType::f32).to_vector<float>()) {
    const uint16_t bits = f32_to_bf16(around_one ? 1 + value : value);
    bytes.push_back(static_cast<uint8_t>(bits & 0xff));
    bytes.push_back(static_cast<uint8_t>(bits >> 8));
  }
  return bytes;
}

}  // namespace

std::string digest_of(const Llama& model) {
  const NoGradScope no_grad;
  const LlamaOptions& o = model.options();
  Sha256 hash;
  add(hash, fmt::format("{} {} {} {} {} {}", o.vocabulary, o.layers, o.heads, o.key_heads, o.width, o.hidden));
  for (const auto& [name, weight] : model.state_dict()) {
    if (!name.ends_with("norm.weight")) continue;
    add(hash, fmt::format(" {} {} ", name, weight.numel()));
    hash.update(bf16_of(weight, o.norm_around_one));
  }
  return hex_of(hash.digest());
}

}  // namespace heddle::nn
