// Folders of Hugging Face that llama_families_values.py describes: configurations of transformers, weights that follow
// from their names.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/io/safetensors.h"
#include "tests/nn/support.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {

using Json = nlohmann::json;

inline const Json& llama_families() {
  static const Json all =
      Json::parse(std::ifstream(std::string(HEDDLE_SOURCE_DIR) + "/tests/nn/llama_families_values.json"));
  return all;
}
inline Json llama_case(const std::string& name) {
  for (const Json& row : llama_families()["cases"]) {
    if (row["name"] == name) return row;
  }
  throw std::runtime_error("no case " + name);
}

// As weight() of llama_families_values.py.
inline std::vector<float> weight_of_name(const std::string& name, const Shape& shape) {
  uint32_t seed = 2166136261U;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 16777619U;
  std::vector<float> values;
  for (uint32_t i = 0; i < static_cast<uint32_t>(shape.numel()); ++i) {
    uint32_t h = seed + i;
    h = (h ^ (h >> 16)) * 2246822507U;
    h = (h ^ (h >> 13)) * 3266489909U;
    h ^= h >> 16;
    const double u = (h >> 8) / 16777216.0;
    const bool bias = name.ends_with(".bias");
    values.push_back(static_cast<float>(shape.rank() == 2 ? (u - 0.5) * 0.7 : bias ? u - 0.5 : u + 0.5));
  }
  return values;
}

inline TensorMap llama_weights(const Json& row) {
  TensorMap all;
  for (const auto& [name, sizes] : row["shapes"].items()) {
    const Shape shape(sizes.get<std::vector<int64_t>>());
    all[name] = Tensor::from_vector(weight_of_name(name, shape), shape, &reference());
  }
  return all;
}

// A case's folder, with one file of weights.
class LlamaCaseFolder : public test::TemporaryFolder {
 public:
  explicit LlamaCaseFolder(const Json& row) : weights(llama_weights(row)), config(row["config"]) { save(); }
  explicit LlamaCaseFolder(const char* name) : LlamaCaseFolder(llama_case(name)) {}
  void save() const {
    write("config.json", config.dump());
    save_safetensors(*this / "model.safetensors", weights);
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(*this / name) << text; }

  TensorMap weights;
  Json config;
};

// A case as the GGUF files of its family can say it: windows and scales are those that follow from the architecture.
inline LlamaCaseFolder llama_case_of_gguf(const std::string& name) {
  Json row = llama_case(name);
  Json& config = row["config"];
  if (name == "qwen2") config["use_sliding_window"] = false;
  if (name == "mistral") config["sliding_window"] = nullptr;
  if (name.starts_with("gemma")) config["query_pre_attn_scalar"] = config["head_dim"];
  if (name == "gemma3") {
    const Json shapes = row["shapes"];
    for (const auto& [tensor, shape] : shapes.items()) {
      if (!tensor.starts_with("model.layers.0.")) continue;
      for (const char* layer : {"3", "4", "5", "6"})
        row["shapes"]["model.layers." + (layer + tensor.substr(14))] = shape;
    }
    config["num_hidden_layers"] = 7;  // the sixth has no window
    config.erase("layer_types");
  }
  return LlamaCaseFolder(row);
}

}  // namespace heddle::tests
