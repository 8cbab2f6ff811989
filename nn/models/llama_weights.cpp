#include "heddle/nn/models/llama_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/base/shortened.h"

namespace heddle::nn {
namespace {

constexpr size_t most_named = 100;

// A line stays a line, whatever a file says.
std::string list_of(const std::vector<std::string>& names, const char* between) {
  if (names.size() <= most_named) return fmt::format("{}", fmt::join(names, between));
  return fmt::format("{}{}and {} more", fmt::join(names.begin(), names.begin() + most_named, between), between,
                     names.size() - most_named);
}

class Stored {
 public:
  Stored(const LlamaOptions& o, bool fused) : o_(o), fused_(fused) {}

  std::map<std::string, StoredWeight> run() {
    add("model.embed_tokens", {o_.vocabulary, o_.width});
    add("model.norm", {o_.width});
    if (!o_.tied) add("lm_head", {o_.vocabulary, o_.width});
    for (int64_t i = 0; i < o_.layers; ++i) layer(fmt::format("model.layers.{}.", i));
    return std::move(all_);
  }

 private:
  using Part = std::pair<const char*, int64_t>;  // name and rows

  void add(const std::string& name, const Shape& shape, const char* kind = ".weight") {
    all_[name + kind] = {name + kind, shape, 0, shape[0]};
  }

  // Matrices over the width, each by itself or one below the other.
  void projections(const std::string& path, const char* together, std::initializer_list<Part> parts) {
    int64_t rows = 0, first = 0;
    for (const Part& part : parts) rows += part.second;
    for (const auto& [name, own] : parts) {
      if (!fused_) add(path + name, {own, o_.width});
      if (fused_) all_[path + name + ".weight"] = {path + together + ".weight", {rows, o_.width}, first, own};
      first += own;
    }
  }

  void layer(const std::string& path) {
    const int64_t size = o_.size_of_head(), queries = o_.heads * size, keys = o_.key_heads * size;
    add(path + "input_layernorm", {o_.width});
    add(path + "post_attention_layernorm", {o_.width});
    if (o_.norms_behind) {
      add(path + "pre_feedforward_layernorm", {o_.width});
      add(path + "post_feedforward_layernorm", {o_.width});
    }
    const std::string attention = path + "self_attn.";
    projections(attention, "qkv_proj", {{"q_proj", queries}, {"k_proj", keys}, {"v_proj", keys}});
    if (o_.qkv_bias) {
      add(attention + "q_proj", {queries}, ".bias");
      add(attention + "k_proj", {keys}, ".bias");
      add(attention + "v_proj", {keys}, ".bias");
    }
    if (o_.head_norms) {
      add(attention + "q_norm", {size});
      add(attention + "k_norm", {size});
    }
    add(attention + "o_proj", {o_.width, queries});
    projections(path + "mlp.", "gate_up_proj", {{"gate_proj", o_.hidden}, {"up_proj", o_.hidden}});
    add(path + "mlp.down_proj", {o_.width, o_.hidden});
  }

  const LlamaOptions& o_;
  bool fused_;
  std::map<std::string, StoredWeight> all_;
};

}  // namespace

std::map<std::string, StoredWeight> stored_weights(const LlamaOptions& options, bool fused) {
  return Stored(options, fused).run();
}

std::string fault_of(const ShapesByName& found, const ShapesByName& wanted, const std::string& whose) {
  std::vector<std::string> missing, other, foreign;
  for (const auto& [name, shape] : wanted) {
    const auto there = found.find(name);
    if (there == found.end())
      missing.push_back(name);
    else if (there->second != shape)
      other.push_back(fmt::format("{} {} instead of {}", name, there->second.str(), shape.str()));
  }
  for (const auto& [name, shape] : found) {
    if (!wanted.contains(name)) foreign.emplace_back(shortened(name));
  }
  std::vector<std::string> faults;
  if (!missing.empty()) faults.push_back("tensors are missing: " + list_of(missing, ", "));
  if (!other.empty()) faults.push_back(fmt::format("tensors do not fit {}: {}", whose, list_of(other, "; ")));
  if (!foreign.empty()) faults.push_back("it has tensors that no such model has: " + list_of(foreign, ", "));
  return fmt::format("{}", fmt::join(faults, "; "));
}

}  // namespace heddle::nn
