#include "heddle/train/recipes/mixture.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"

namespace heddle::train {
namespace {

constexpr const char* experts = "experts";

// Weights are those of the papers that nn/routing.h names.
const std::vector<ModelOption>& keys_beside_experts() {
  static const std::vector<ModelOption> keys = {
      {"top_k", Integer{2}, "experts of each token"},
      {"capacity_factor", Number{1.25},
       "places for each pick in training, if picks were even; what has none is dropped"},
      {"balance_loss", Number{0.01}, "weight of the loss that makes picks even"},
      {"router_z_loss", Number{0.001}, "weight of the loss that keeps a router's logits small"}};
  return keys;
}

void refuse_without_experts(const Config& c) {
  for (const ModelOption& option : keys_beside_experts()) {
    const std::string key = "model." + option.name;
    const Value& value = c.model.at(option.name);
    if (value == option.initial && !c.given().contains(key)) continue;
    throw ValueError(fmt::format("[{}] {} is {}, but it counts only where model.experts is above 0", c.run.recipe, key,
                                 toml_text(value)));
  }
}

double weight(const Config& c, const char* name) {
  const auto value = c.model_value<Number>(name);
  if (!(value >= 0))
    throw ValueError(fmt::format("[{}] model.{} is {}; it must be 0 or above", c.run.recipe, name, value));
  return value;
}

}  // namespace

std::vector<ModelOption> with_mixture(std::vector<ModelOption> model) {
  model.push_back({experts, Integer{0}, "MLPs of each block, of which a token passes top_k; 0: one MLP"});
  model.insert(model.end(), keys_beside_experts().begin(), keys_beside_experts().end());
  return model;
}

void read_mixture(const Config& c, nn::GptOptions& options) {
  options.experts = c.model_value<Integer>(experts);
  if (options.experts == 0) return refuse_without_experts(c);
  options.top_k = c.model_value<Integer>("top_k");
  options.capacity_factor = c.model_value<Number>("capacity_factor");
}

RouterWeights router_weights(const Config& c) {
  if (!c.model.contains(experts) || c.model_value<Integer>(experts) == 0) return {};
  return {weight(c, "balance_loss"), weight(c, "router_z_loss")};
}

}  // namespace heddle::train
