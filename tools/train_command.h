// TrainCommand: what `heddle train`, `resume` and `profile train` were told, and the configuration that comes of it.
//
// Invariants: a recipe's defaults give way to the file of --config, that to options, and among these later ones win. Errors: ValueError that names the option.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli.h"
#include "train/config.h"

namespace heddle::tools {

struct TrainCommand {
  std::string recipe, config_file;
  std::vector<std::pair<const train::ConfigRow*, std::string>> given;  // options, as they were spelt
  std::vector<std::string> sets;                                      // --set key=value
  bool resume = false, json = false;
};

// The recipe, --config, --set, --resume and one option for each row of train/config_options.inc that has a flag.
void add_train_options(CLI::App& command, TrainCommand& options);
// Those of the rows, and --set.
void add_config_options(CLI::App& command, TrainCommand& options);
// --config over the recipe's defaults, options over both. ValueError without any recipe.
train::Config config_of(const TrainCommand& options);
// `config` with the options over it.
train::Config with_options(train::Config config, const TrainCommand& options);

}  // namespace heddle::tools
