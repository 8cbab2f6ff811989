#include "tools/checkpoint.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "core/base/error.h"
#include "io/safetensors.h"

namespace heddle::tools {
namespace {

constexpr std::string_view model_prefix = "model.", optimizer_prefix = "optimizer.";

nn::StateDict with_prefix(const TensorMap& tensors, std::string_view prefix) {
  nn::StateDict result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) result.emplace(name.substr(prefix.size()), tensor);
  }
  return result;
}

std::string entry(const std::string& path, const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    throw IoError(fmt::format("[checkpoint] {}: no '{}' in its metadata; not a checkpoint of heddle train", path, key));
  return found->second;
}

void require_equal(const std::string& path, const Metadata& metadata, const char* key, const std::string& expected) {
  const std::string found = entry(path, metadata, key);
  if (found != expected)
    throw ValueError(fmt::format("[checkpoint] {} was made with {} {}, this run has {}", path, key, found, expected));
}

}  // namespace

void save_checkpoint(const std::string& path, const CheckpointInfo& info, const nn::Module& model,
                     const nn::Optimizer& optimizer) {
  TensorMap tensors;
  for (const auto& [name, tensor] : model.state_dict()) tensors.emplace(std::string(model_prefix) + name, tensor);
  for (const auto& [name, tensor] : optimizer.state_dict())
    tensors.emplace(std::string(optimizer_prefix) + name, tensor);
  save_safetensors(path, tensors,
                   {{"recipe", info.recipe},
                    {"step", std::to_string(info.step)},
                    {"seed", std::to_string(info.seed)},
                    {"batch", std::to_string(info.batch)},
                    {"optimizer", info.optimizer}});
}

int64_t load_checkpoint(const std::string& path, const CheckpointInfo& info, nn::Module& model,
                        nn::Optimizer& optimizer, DeviceContext& device) {
  const SafetensorsFile file = load_safetensors(path, &device);
  require_equal(path, file.metadata, "recipe", info.recipe);
  require_equal(path, file.metadata, "seed", std::to_string(info.seed));
  require_equal(path, file.metadata, "batch", std::to_string(info.batch));
  require_equal(path, file.metadata, "optimizer", info.optimizer);
  const std::string text = entry(path, file.metadata, "step");
  int64_t step = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (code != std::errc{} || end != text.data() + text.size() || step < 0)
    throw IoError(fmt::format("[checkpoint] {}: step '{}' is not a number", path, text));
  model.load_state_dict(with_prefix(file.tensors, model_prefix));
  optimizer.load_state_dict(with_prefix(file.tensors, optimizer_prefix));
  return step;
}

nn::StateDict load_model_state(const std::string& path, DeviceContext& device) {
  const SafetensorsFile file = load_safetensors(path, &device);
  nn::StateDict inside = with_prefix(file.tensors, model_prefix);
  return inside.empty() ? file.tensors : inside;
}

}  // namespace heddle::tools
