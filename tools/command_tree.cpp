#include "tools/command_tree.h"

#include <algorithm>

namespace heddle::tools {
namespace {

std::vector<std::string> choices_in(const std::string& type) {
  const size_t open = type.find('{'), close = type.find('}', open == std::string::npos ? 0 : open);
  std::vector<std::string> choices;
  if (open == std::string::npos || close == std::string::npos) return choices;
  for (size_t at = open + 1; at < close;) {
    const size_t comma = std::min(type.find(',', at), close);
    choices.push_back(type.substr(at, comma - at));
    at = comma + 1;
  }
  return choices;
}

CommandOption option_of(const CLI::Option& option) {
  CommandOption result;
  result.positional = option.get_positional();
  result.takes_value = option.get_items_expected_max() > 0;
  result.required = option.get_required();
  result.description = option.get_description();
  result.type = result.takes_value ? option.get_type_name() : "";
  result.initial = result.takes_value ? option.get_default_str() : "";
  result.choices = choices_in(result.type);
  if (result.positional) {
    result.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  }
  return result;
}

CommandNode node_of(const CLI::App& app, const std::string& path) {
  CommandNode node{path, app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return !o->get_group().empty(); }))
    node.options.push_back(option_of(*option));
  std::stable_partition(node.options.begin(), node.options.end(), [](const CommandOption& o) { return o.positional; });
  for (const CLI::App* child : app.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); }))
    node.children.push_back(node_of(*child, path + " " + child->get_name()));
  return node;
}

void collect(const CommandNode& node, std::vector<const CommandNode*>& into) {
  into.push_back(&node);
  for (const CommandNode& child : node.children) collect(child, into);
}

}  // namespace

CommandNode command_tree(const CLI::App& app) { return node_of(app, ""); }

std::vector<const CommandNode*> all_commands(const CommandNode& root) {
  std::vector<const CommandNode*> nodes;
  collect(root, nodes);
  return nodes;
}

}  // namespace heddle::tools
