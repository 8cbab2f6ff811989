#include "heddle/train/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/similar.h"
#include "heddle/core/functions/functions.h"
#include "heddle/io/weights_file.h"
#include "heddle/nn/weights.h"
#include "heddle/train/recipes/recipes.h"

namespace heddle::train {
namespace {

void refuse_unused(const Recipe& recipe, const Config& config) {
  std::vector<std::string> keys = config.differences(recipe_config(recipe.name));
  keys.insert(keys.end(), config.given().begin(), config.given().end());
  for (const std::string& key : keys) {
    if (std::ranges::find(recipe.unused, key) == recipe.unused.end()) continue;
    const ConfigRow* row = find_config_row(key);
    throw ValueError(fmt::format("[{}] {} ({}) is {}, but has no meaning for this recipe: {}", recipe.name, row->flag,
                                 key, toml_text(row->get(config)), row->help));
  }
}

}  // namespace

std::span<const Recipe> recipes() {
  static const std::vector<Recipe> all = {mnist_mlp(), mnist_cnn(),   cifar_resnet(), image_classifier(),
                                          table(),     char_gpt(),    char_lstm(),    gpt2(),
                                          vae(),       mail_sorter(), finetune()};
  return all;
}

const Recipe& find_recipe(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) return recipe;
    names.push_back(recipe.name);
  }
  throw ValueError(fmt::format("[recipe] unknown recipe '{}'; known: {}{}", name, fmt::join(names, ", "),
                               did_you_mean(name, names)));
}

Config recipe_config(std::string_view name) {
  const Recipe& recipe = find_recipe(name);
  Config config;
  config.run.recipe = recipe.name;
  recipe.defaults(config);
  config.declare_model(recipe.model);
  return config;
}

namespace {

data::Preprocessing preprocessing_in(const Metadata& stored) {
  const auto found = stored.find("preprocessing");
  return found == stored.end() ? data::Preprocessing{} : data::Preprocessing::parse(found->second);
}

}  // namespace

std::unique_ptr<Task> make_task(Config& config, DeviceContext& device, const Metadata& stored) {
  const Recipe& recipe = find_recipe(config.run.recipe);
  config.declare_model(recipe.model);
  refuse_unused(recipe, config);
  manual_seed(static_cast<uint64_t>(config.run.seed));
  const data::Preprocessing preprocessing = preprocessing_in(stored);
  std::unique_ptr<Task> task = recipe.make({config, device, preprocessing, stored});
  if (!config.run.init_from.empty() && stored.empty())
    task->begin_with(load_weights(config.run.init_from, &device).tensors);
  for (const std::string& pattern : config.run.freeze) nn::freeze(task->model(), pattern);
  return task;
}

std::unique_ptr<Predictor> make_predictor(ModelFile& file, DeviceContext& device) {
  const Recipe& recipe = find_recipe(file.config.run.recipe);
  if (recipe.predictor == nullptr) {
    std::vector<std::string_view> names;
    for (const Recipe& each : recipes()) {
      if (each.predictor != nullptr) names.push_back(each.name);
    }
    throw ValueError(
        fmt::format("[predict] {} is a model of {}, which predicts neither classes nor numbers; models of "
                    "{} do",
                    file.path, recipe.name, fmt::join(names, ", ")));
  }
  file.config.declare_model(recipe.model);
  const data::Preprocessing preprocessing = preprocessing_in(file.metadata);
  std::unique_ptr<Predictor> predictor = recipe.predictor({file.config, device, preprocessing, file.metadata});
  predictor->model().load_state_dict(file.state);
  predictor->model().eval();
  return predictor;
}

Network make_network(ModelFile& file, DeviceContext& device) {
  const Recipe& recipe = find_recipe(file.config.run.recipe);
  file.config.declare_model(recipe.model);
  const data::Preprocessing preprocessing = preprocessing_in(file.metadata);
  Network network = recipe.network({file.config, device, preprocessing, file.metadata});
  network.model->load_state_dict(file.state);
  network.model->eval();
  return network;
}

}  // namespace heddle::train
