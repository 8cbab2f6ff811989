// heddle completion: scripts that complete commands, options and their choices in a shell.
//
// All three walk the words before the cursor: "at" is the command that they name so far, e.g. " cache list".
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "tools/command_tree.h"

namespace heddle::tools {
namespace {

using Commands = std::vector<const CommandNode*>;

// Inside single quotes of any of the shells.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string first_sentence(const std::string& text) { return text.substr(0, text.find_first_of(";\n")); }

// " train" ' cache list' ...: what a command may be.
std::string known_paths(const Commands& commands, const char* between) {
  std::vector<std::string> paths;
  for (const CommandNode* c : commands) {
    if (!c->path.empty()) paths.push_back(shell_quoted(c->path));
  }
  return fmt::format("{}", fmt::join(paths, between));
}

struct Entry {
  std::string word, description;
};
// What may stand after a command: further commands, choices of positional options, options.
std::vector<Entry> entries_of(const CommandNode& c) {
  std::vector<Entry> entries;
  for (const CommandNode& child : c.children) entries.push_back({child.name, first_sentence(child.description)});
  for (const CommandOption& option : c.options) {
    const std::vector<std::string>& words = option.positional ? option.choices : option.names;
    for (const std::string& word : words) entries.push_back({word, first_sentence(option.description)});
  }
  return entries;
}

// One line of a `case` for each option with choices: pattern, then words.
std::string choice_cases(const Commands& commands, const char* format) {
  std::string text;
  for (const CommandNode* c : commands) {
    for (const CommandOption& option : c->options) {
      if (option.positional || option.choices.empty()) continue;
      for (const std::string& name : option.names)
        text += fmt::format(fmt::runtime(format), shell_quoted(c->path + " " + name), fmt::join(option.choices, " "));
    }
  }
  return text;
}

std::string bash(const Commands& commands) {
  std::string text =
      "# Completion of heddle in bash, printed by `heddle completion bash`; source it, or put it into "
      "~/.local/share/bash-completion/completions/heddle.\n";
  text +=
      "_heddle() {\n  local at= word words=\n  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"$at "
      "$word\" in\n";
  text += fmt::format("      {}) at=\"$at $word\" ;;\n    esac\n  done\n", known_paths(commands, "|"));
  text += "  case \"$at ${COMP_WORDS[COMP_CWORD-1]}\" in\n" + choice_cases(commands, "    {}) words='{}' ;;\n");
  text += "    *)\n      case \"$at\" in\n";
  for (const CommandNode* c : commands) {
    std::vector<std::string> words;
    for (const Entry& entry : entries_of(*c)) words.push_back(entry.word);
    text += fmt::format("        {}) words='{}' ;;\n", shell_quoted(c->path), fmt::join(words, " "));
  }
  return text +
         "      esac ;;\n  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete "
         "-o default -F _heddle heddle\n";
}

std::string zsh(const Commands& commands) {
  std::string text =
      "#compdef heddle\n# Completion of heddle in zsh, printed by `heddle completion zsh`; put it into a folder of "
      "$fpath as _heddle.\n";
  text +=
      "_heddle() {\n  local at= word\n  local -a entries\n  for word in ${words[2,CURRENT-1]}; do\n    case \"$at "
      "$word\" in\n";
  text += fmt::format("      ({}) at=\"$at $word\" ;;\n    esac\n  done\n", known_paths(commands, "|"));
  text += "  case \"$at $words[CURRENT-1]\" in\n" + choice_cases(commands, "    ({}) compadd -- {}; return ;;\n") +
          "  esac\n  case \"$at\" in\n";
  for (const CommandNode* c : commands) {
    std::vector<std::string> words;
    for (const Entry& entry : entries_of(*c)) words.push_back(shell_quoted(entry.word + ":" + entry.description));
    text += fmt::format("    ({}) entries=({}) ;;\n", shell_quoted(c->path), fmt::join(words, " "));
  }
  return text +
         "  esac\n  _describe -o heddle entries || _files\n}\nif [[ $funcstack[1] == _heddle ]]; then _heddle \"$@\"; "
         "else compdef _heddle heddle; fi\n";
}

std::string fish(const Commands& commands) {
  std::string text =
      "# Completion of heddle in fish, printed by `heddle completion fish`; put it into "
      "~/.config/fish/completions/heddle.fish.\n";
  text += "function __heddle_at\n  set -l at ''\n  for word in (commandline -opc)[2..]\n";
  text += fmt::format(
      "    contains -- \"$at $word\" {}; and set at \"$at $word\"\n  end\n  test \"$at\" = \"$argv[1]\"\nend\n",
      known_paths(commands, " "));
  for (const CommandNode* c : commands) {
    const std::string here =
        fmt::format("complete -c heddle -n {}", shell_quoted(fmt::format("__heddle_at \"{}\"", c->path)));
    for (const CommandNode& child : c->children)
      text += fmt::format("{} -f -a {} -d {}\n", here, child.name, shell_quoted(first_sentence(child.description)));
    for (const CommandOption& option : c->options) {
      const std::string choices =
          option.choices.empty()
              ? ""
              : fmt::format(" -a {}", shell_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
      if (option.positional && choices.empty()) continue;
      std::string names;
      for (const std::string& name : option.names)
        names += option.positional ? "" : name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      const char* value = !option.takes_value ? "" : choices.empty() ? " -r" : " -x";
      text += fmt::format("{}{}{}{} -d {}\n", here, names, option.positional ? " -f" : value, choices,
                          shell_quoted(first_sentence(option.description)));
    }
  }
  return text;
}

}  // namespace

void add_completion(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("completion", "Print a script that completes commands and options in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->type_name("{bash,zsh,fish}");
  command->footer("Example:\n  heddle completion bash > ~/.local/share/bash-completion/completions/heddle");
  command->callback([shell, &cli] {
    const CommandNode root = command_tree(cli.app);
    const Commands commands = all_commands(root);
    if (*shell == "bash")
      fmt::print("{}", bash(commands));
    else if (*shell == "zsh")
      fmt::print("{}", zsh(commands));
    else if (*shell == "fish")
      fmt::print("{}", fish(commands));
    else
      throw ValueError(fmt::format("[completion] unknown shell '{}'; known: bash, zsh, fish", *shell));
  });
}

}  // namespace heddle::tools
