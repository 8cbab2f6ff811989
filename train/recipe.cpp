#include "train/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/similar.h"
#include "core/graph/functions.h"
#include "train/recipes/recipes.h"

namespace heddle::train {

std::span<const Recipe> recipes() {
  static const std::vector<Recipe> all = {mnist_mlp(), mnist_cnn()};
  return all;
}

const Recipe& find_recipe(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) return recipe;
    names.push_back(recipe.name);
  }
  throw ValueError(fmt::format("[recipe] unknown recipe '{}'; known: {}{}", name, fmt::join(names, ", "), did_you_mean(name, names)));
}

Config recipe_config(std::string_view name) {
  const Recipe& recipe = find_recipe(name);
  Config config;
  config.run.recipe = recipe.name;
  recipe.defaults(config);
  config.declare_model(recipe.model);
  return config;
}

std::unique_ptr<Task> make_task(Config& config, DeviceContext& device) {
  const Recipe& recipe = find_recipe(config.run.recipe);
  config.declare_model(recipe.model);
  manual_seed(static_cast<uint64_t>(config.run.seed));
  return recipe.make(config, device);
}

}  // namespace heddle::train
