#include "tools/train_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/base/error.h"
#include "heddle/train/option_uses.h"
#include "heddle/train/recipe.h"

namespace heddle::tools {
namespace {

std::string recipe_list() {
  std::vector<std::string> lines;
  for (const train::Recipe& recipe : train::recipes()) lines.push_back(fmt::format("{}: {}", recipe.name, recipe.help));
  return fmt::format("{}", fmt::join(lines, "; "));
}

}  // namespace

void TrainCommand::add_to(CLI::App& command) {
  command.add_option("recipe", recipe, recipe_list());
  command.add_flag("--resume", resume, "Go on from the newest whole checkpoint in --out");
  options.add_to(command);
}

train::Config TrainCommand::config() const {
  std::string name = recipe;
  if (name.empty()) {
    train::Config given;
    options.apply(given);
    name = given.run.recipe;
  }
  if (name.empty()) throw ValueError(fmt::format("[train] which recipe? {}", recipe_list()));
  train::Config config = train::recipe_config(name);
  options.apply(config);
  config.run.recipe = name;
  train::refuse_unused_options(config, train::recipe_config(name));
  return config;
}

}  // namespace heddle::tools
