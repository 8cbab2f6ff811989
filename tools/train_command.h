// TrainCommand: what `heddle train` and `heddle profile train` were told, and the configuration that comes of it.
#pragma once

#include <string>

#include "tools/config_options.h"

namespace heddle::tools {

struct TrainCommand {
  std::string recipe, model;
  std::string mesh;  // of ranks
  ConfigOptions options;
  bool resume = false, json = false;

  // The recipe, --resume and the options of a run.
  void add_to(CLI::App& command);
  // The options over the recipe's defaults; the recipe may be that of --config. ValueError without any.
  train::Config config() const;
};

// "runs/<recipe>": where a run without --out is resumed, and begins where nothing is there yet.
std::string default_folder(const std::string& recipe);

// Trains as the configuration says, into its folder, and prints how it goes; the process's exit code. Of ranks that a
// launcher started each trains on its part of the batches, and the first one writes and prints. `mesh`: "dp=4"; empty:
// all ranks share batches.
int run_training(train::Config config, bool resume, bool json, const std::string& mesh = "");

}  // namespace heddle::tools
