#include "heddle/train/not_finite.h"

#include <algorithm>

#include "heddle/core/functions/functions.h"

namespace heddle::train {
namespace {

Tensor is_finite(const Tensor& x) { return all(isfinite(x.detach())); }

// Waits once for all of them.
std::vector<std::string> false_ones(const nn::NamedTensors& flags) {
  std::vector<Tensor> all;
  for (const auto& [name, flag] : flags) all.push_back(flag);
  eval(all);
  std::vector<std::string> names;
  for (const auto& [name, flag] : flags) {
    if (flag.item() == 0) names.push_back(name);
  }
  return names;
}

}  // namespace

OutputWatch::OutputWatch(nn::Module& network) {
  network.apply([this](const std::string& path, nn::Module& module) {
    const size_t number = module.register_forward_hook([this, path](nn::Module&, const Tensor&, const Tensor& y) {
      if (is_float(y.dtype())) finite_.emplace_back(path.empty() ? "the network" : path, is_finite(y));
      return Tensor();
    });
    hooks_.emplace_back(module, number);
  });
}

OutputWatch::~OutputWatch() {
  for (auto& [module, number] : hooks_) module.remove_hook(number);
}

std::string OutputWatch::first() const {
  const std::vector<std::string> names = false_ones(finite_);
  return names.empty() ? std::string() : names.front();
}

std::string first_not_finite(const nn::NamedTensors& tensors) {
  nn::NamedTensors flags;
  for (const auto& [name, tensor] : tensors) {
    if (is_float(tensor.dtype())) flags.emplace_back(name, is_finite(tensor));
  }
  const std::vector<std::string> names = false_ones(flags);
  return names.empty() ? std::string() : names.front();
}

std::string last_without_norm(const nn::NamedTensors& tensors) {
  nn::NamedTensors flags;
  for (const auto& [name, tensor] : tensors) flags.emplace_back(name, is_finite(sum(square(cast(tensor, DType::f32)))));
  const std::vector<std::string> names = false_ones(flags);
  return names.empty() ? std::string() : names.back();
}

}  // namespace heddle::train
