// What `heddle finetune` and `heddle plan finetune` are told, and the configuration that comes of it.
//
// Errors: ValueError that names the flag. Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli.h"
#include "tools/config_options.h"

namespace heddle::tools {

struct FinetuneOptions {
  std::string model;
  struct Given {
    std::string key, value, flag;
  };
  std::vector<Given> given;
  ConfigOptions options;
  int64_t preview = 0;
  bool resume = false, json = false;

  // The model and all options of a run.
  void add_to(CLI::App& command);
  train::Config config() const;
};

// `key` of the configuration as the command line spells it: "--rank 16", "--no-pack", "--set model.x=1".
std::string finetune_flag(const train::Config& config, const std::string& key);
// In quotes where a shell would see more in it.
std::string shell_word(const std::string& text);

}  // namespace heddle::tools
