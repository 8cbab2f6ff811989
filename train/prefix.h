// Tensors of several owners in one map, told apart by a prefix of their names. Thread safety: pure.
#pragma once

#include <string>
#include <string_view>

#include "heddle/io/safetensors.h"

namespace heddle::train {

// Of what a checkpoint holds of optimizers.
inline constexpr std::string_view optimizer_prefix = "optimizer.";

inline void add_with_prefix(TensorMap& to, std::string_view prefix, const TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) to.emplace(std::string(prefix) + name, tensor);
}

// Those that have it, without it.
template <class Tensors>
Tensors with_prefix(const Tensors& tensors, std::string_view prefix) {
  Tensors result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) result.emplace(name.substr(prefix.size()), tensor);
  }
  return result;
}

}  // namespace heddle::train
