#include "tools/train_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "train/recipe.h"

namespace heddle::tools {
namespace {

std::string recipe_help() {
  std::vector<std::string> lines;
  for (const train::Recipe& recipe : train::recipes()) lines.push_back(fmt::format("{}: {}", recipe.name, recipe.help));
  return fmt::format("{}", fmt::join(lines, "; "));
}

void add_row(CLI::App& command, TrainCommand& o, const train::ConfigRow& row) {
  const auto keep = [&o, &row](const std::string& text) { o.given.emplace_back(&row, text); };
  if (std::holds_alternative<train::Flag>(row.initial)) {
    command.add_flag_callback(row.flag, [keep] { keep("true"); }, row.help);
    return;
  }
  command.add_option_function<std::string>(row.flag, keep, row.help)->take_last();
}

}  // namespace

void add_config_options(CLI::App& command, TrainCommand& o) {
  for (const train::ConfigRow& row : train::config_rows()) {
    if (!row.flag.empty()) add_row(command, o, row);
  }
  command.add_option("--set", o.sets, "Any option by its key in config.toml, e.g. model.layers=6")->type_name("KEY=VALUE");
}

void add_train_options(CLI::App& command, TrainCommand& o) {
  command.add_option("recipe", o.recipe, recipe_help());
  command.add_option("--config", o.config_file, "TOML file with options; config.toml of a run's folder is a complete one");
  command.add_flag("--resume", o.resume, "Go on from the newest whole checkpoint in --out");
  add_config_options(command, o);
}

train::Config with_options(train::Config config, const TrainCommand& o) {
  for (const auto& [row, text] : o.given) config.set(row->key, text, row->flag);
  for (const std::string& set : o.sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos) throw ValueError(fmt::format("[train] --set is '{}', expected key=value, e.g. model.layers=6", set));
    config.set(set.substr(0, equals), set.substr(equals + 1), "--set " + set.substr(0, equals));
  }
  return config;
}

train::Config config_of(const TrainCommand& o) {
  std::string recipe = o.recipe;
  if (recipe.empty() && !o.config_file.empty()) recipe = train::Config::load(o.config_file).run.recipe;
  if (recipe.empty()) throw ValueError(fmt::format("[train] which recipe? {}", recipe_help()));
  train::Config config = train::recipe_config(recipe);
  if (!o.config_file.empty()) config.read(o.config_file);
  config.run.recipe = recipe;
  return with_options(std::move(config), o);
}

}  // namespace heddle::tools
