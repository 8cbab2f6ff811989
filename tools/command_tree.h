// The commands of `heddle` with their options, as the parser knows them: what completion scripts and the man page are
// made from.
//
// Thread safety: pure.
#pragma once

#include <string>
#include <vector>

#include "tools/cli.h"

namespace heddle::tools {

struct CommandOption {
  std::vector<std::string> names;  // "-o", "--output"; of a positional one its name alone
  std::string description, type, initial;
  std::vector<std::string> choices;  // "{a,b}" in its type
  bool positional = false, takes_value = false, required = false;
};

struct CommandNode {
  std::string path;  // " cache list"; "" for the program itself
  std::string name, description, footer;
  std::vector<CommandOption> options;
  std::vector<CommandNode> children;
};

CommandNode command_tree(const CLI::App& app);
// The node itself and all below, parents first.
std::vector<const CommandNode*> all_commands(const CommandNode& root);

}  // namespace heddle::tools
