// TrainCommand: what `heddle train` and `heddle profile train` were told, and the configuration that comes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/config_options.h"

namespace heddle::tools {

// What ranks of a launch are told, and a process alone may be.
struct RankOptions {
  std::string mesh;                    // "dp=4"; empty: all ranks share batches
  double timeout = 600;                // seconds that a rank waits for one that does not answer
  bool elastic = false;                // goes on without ranks that are lost
  std::optional<int64_t> buddy_every;  // updates between copies for that case
  void add_mesh_to(CLI::App& command);
  void add_timeout_to(CLI::App& command);
  void add_elastic_to(CLI::App& command);
  // ValueError.
  void check(const train::Config& config) const;
};

struct TrainCommand {
  std::string recipe, model, experts, top_k;
  RankOptions ranks;
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
// launcher started each trains on its part of the batches, and the first one writes and prints.
int run_training(train::Config config, bool resume, bool json, const RankOptions& ranks = {});

}  // namespace heddle::tools
