// The options of a run (train/config.h) on a command line.
//
//   ConfigOptions options;                 // outlives the parse
//   options.add_to(command);
//   ... options.apply(config);             // in the command's callback
//
// Purpose: a flag for each row of train/config_options.inc, in groups, with its help, type and initial value; --config
// FILE and --set KEY=VALUE besides. Errors: ValueError that names the flag. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "heddle/train/config.h"
#include "tools/cli.h"

namespace heddle::tools {

class ConfigOptions {
 public:
  ConfigOptions() = default;
  ConfigOptions(const ConfigOptions&) = delete;  // options of the command point into it
  ConfigOptions& operator=(const ConfigOptions&) = delete;

  // `without`: flags that the command has a meaning of its own for; --set still says what they would.
  void add_to(CLI::App& command, const std::vector<std::string>& without = {});
  // The file's values over those of `config`, and what the command line says over both.
  void apply(train::Config& config) const;

 private:
  struct Given {
    std::string key, value, flag;
  };
  void add_row(CLI::App& command, const train::ConfigRow& row);

  std::string file_;
  std::vector<std::string> assignments_;
  std::vector<Given> given_;  // in the order of the command line
};

}  // namespace heddle::tools
