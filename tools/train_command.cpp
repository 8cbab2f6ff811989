#include "tools/train_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/base/error.h"
#include "heddle/nn/models/known.h"
#include "heddle/train/option_uses.h"
#include "heddle/train/recipe.h"
#include "heddle/train/trainer.h"

namespace heddle::tools {
namespace {

std::string recipe_list() {
  std::vector<std::string> lines;
  for (const train::Recipe& recipe : train::recipes()) lines.push_back(fmt::format("{}: {}", recipe.name, recipe.help));
  return fmt::format("{}", fmt::join(lines, "; "));
}

}  // namespace

void RankOptions::add_mesh_to(CLI::App& command) {
  command
      .add_option(
          "--mesh", mesh,
          "What the ranks of a launch share: each batch (dp), or batches and, by --sharding, states (fsdp); heads and "
          "widths (tp), blocks (pp), positions (cp) and experts (ep) of the model; e.g. dp=2,tp=2; default: each batch")
      ->type_name("AXES");
}

void RankOptions::add_timeout_to(CLI::App& command) {
  command
      .add_option("--rank-timeout", timeout,
                  fmt::format("How long a rank of a launch waits for one that does not answer, which is then named; "
                              "default: {:g}",
                              timeout))
      ->type_name("SECONDS");
}

void RankOptions::add_elastic_to(CLI::App& command) {
  command.add_flag("--elastic", elastic,
                   "Ranks of a launch go on, in the same processes, without one that was killed; heddle launch "
                   "--elastic gives it");
  command
      .add_option("--buddy-every", buddy_every,
                  fmt::format("Of --elastic with --sharding zero1 or zero2: updates between copies of each rank's part "
                              "of the states in the next rank's memory; 0: none, a loss takes the run back to its last "
                              "checkpoint; default: {}",
                              train::default_copies_every))
      ->type_name("UPDATES");
}

void RankOptions::check(const train::Config& config) const {
  if (!(timeout > 0)) throw ValueError(fmt::format("[train] --rank-timeout is {:g}; it must be above 0", timeout));
  if (!buddy_every) return;
  if (*buddy_every < 0)
    throw ValueError(fmt::format("[train] --buddy-every is {}; it must be at least 0", *buddy_every));
  if (!elastic || config.training.sharding == "none")
    throw ValueError("[train] --buddy-every counts only with --elastic and --sharding zero1 or zero2");
}

void TrainCommand::add_to(CLI::App& command) {
  command.add_option("recipe", recipe, recipe_list());
  command.add_flag("--resume", resume, "Go on from the newest whole checkpoint in --out");
  std::vector<std::string> names;
  for (const nn::KnownModel& known : nn::known_models()) {
    if (known.make_classifier) names.push_back(known.name);
  }
  command
      .add_option(
          "--model", model,
          fmt::format("Network of image-classifier, the same as --set model.name=NAME: {}", fmt::join(names, ", ")))
      ->type_name("NAME")
      ->group("model");
  command
      .add_option("--experts", experts,
                  "Of char-gpt and gpt2: MLPs of each block, of which each token passes --top-k; 0: one, the default")
      ->type_name("INTEGER")
      ->group("model");
  command.add_option("--top-k", top_k, "Experts of each token, where there are --experts; default: 2")
      ->type_name("INTEGER")
      ->group("model");
  ranks.add_mesh_to(command);
  ranks.add_timeout_to(command);
  ranks.add_elastic_to(command);
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
  if (!model.empty()) config.model["name"] = train::Text(model);
  if (!experts.empty()) config.set("model.experts", experts, "--experts");
  if (!top_k.empty()) config.set("model.top_k", top_k, "--top-k");
  config.run.recipe = name;
  train::refuse_unused_options(config, train::recipe_config(name));
  return config;
}

}  // namespace heddle::tools
