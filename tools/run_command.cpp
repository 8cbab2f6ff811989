#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/similar.h"
#include "heddle/core/graph/number_guard.h"
#include "tools/cli.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

int fail(const char* kind, const char* text, int code) noexcept {
  std::fflush(stdout);
  say_failure(kind, text);
  return code;
}

// heddle, heddle cache, heddle cache pack: the commands that the arguments name, as far as they do.
std::vector<const CLI::App*> named_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands{&app};
  while (!commands.back()->get_subcommands().empty()) commands.push_back(commands.back()->get_subcommands().front());
  return commands;
}

// "unknown option '--epoch'; did you mean --epochs?" for the first of what a command did not take; empty: that holds no
// option (a number below zero is none).
std::string unknown_option(const CLI::App& command) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options())
    known.insert(known.end(), option->get_lnames().begin(), option->get_lnames().end());
  for (const std::string& argument : command.remaining()) {
    const size_t letter = argument.find_first_not_of('-');
    if (letter == 0 || letter == std::string::npos || !is_ascii_letter(argument[letter])) continue;
    const std::string option = argument.substr(0, argument.find('='));
    const std::vector<std::string_view> names(known.begin(), known.end());
    const std::vector<std::string_view> near = similar_names(std::string_view(option).substr(letter), names);
    return fmt::format("unknown option '{}'{}", option,
                       near.empty() ? "" : fmt::format("; did you mean --{}?", fmt::join(near, ", --")));
  }
  return {};
}

// The names of a command's own commands.
std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* child : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(child->get_name());
  return names;
}

std::string unknown_command(const CLI::App& command, const std::string& name) {
  const std::vector<std::string> known = commands_of(command);
  const std::vector<std::string_view> names(known.begin(), known.end());
  return fmt::format("unknown command '{}'{}; known: {}", name, did_you_mean(name, names), fmt::join(known, ", "));
}

// The same of `heddle cache lsit`: the first word where a command was to follow; empty where none was, or no word is.
std::string unknown_part(const CLI::App& command) {
  if (command.get_require_subcommand_min() == 0 || !command.get_subcommands().empty()) return {};
  const std::vector<std::string> words = command.remaining();
  return words.empty() || words.front().starts_with('-') ? "" : unknown_command(command, words.front());
}

// What is wrong with the command line. What nobody knows says more than what was met first: an option's value taken
// for another argument, the required option that it was to be, or that a command is required.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  std::string line = "heddle", text;
  for (const CLI::App* command : named_commands(app)) {
    if (command != &app) line += " " + command->get_name();
    if (text.empty()) text = unknown_part(*command);
    if (text.empty()) text = unknown_option(*command);
  }
  return fmt::format("{}; see {} --help", text.empty() ? error.what() : text, line);
}

// CLI11 alone would say "a subcommand is required".
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::vector<std::string> known = commands_of(app);
  if (std::find(known.begin(), known.end(), argv[1]) == known.end()) throw ValueError(unknown_command(app, argv[1]));
}

int parse_and_run(int argc, char** argv) {
  Cli cli;
  cli.app.require_subcommand(1);
  cli.app.allow_windows_style_options(false);  // a path may begin with a slash there too
  cli.app.footer(
      "Exit codes: 0 success, 2 user error, 1 internal or device error or standard output lost, 3 out of memory (of a "
      "device or the host),\n"
      "4 device lost or timed out, 5 kernel refused by a driver, 130 interrupted by Ctrl-C, 143 by SIGTERM (after "
      "saving).\n"
      "Example:\n  heddle train mnist-mlp --epochs 2");
  for (const auto add :
       {add_train,    add_resume,   add_launch,  add_eval,       add_predict, add_devices, add_doctor,   add_ops,
        add_dump,     add_plan,     add_summary, add_import,     add_export,  add_compile, add_run,      add_profile,
        add_kernel,   add_certify,  add_bench,   add_tune,       add_report,  add_cache,   add_finetune, add_chat,
        add_generate, add_tokenize, add_pack,    add_completion, add_man,     add_version})
    add(cli);
  try {
    check_command(cli.app, argc, argv);
    cli.app.parse(argc, argv);
    return cli.exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return cli.app.exit(error);  // --help
    return fail("", complaint(cli.app, error).c_str(), exit_user_error);
  }
}

}  // namespace

int run_command(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const UserError& error) {
    return fail("", error.what(), exit_user_error);
  } catch (const NumericError& error) {
    return fail("", error.what(), exit_user_error);
  } catch (const OutOfMemory& error) {
    return fail("out of memory: ", error.what(), exit_out_of_memory);
  } catch (const DeviceLost& error) {
    return fail("device lost: ", error.what(), exit_device_lost);
  } catch (const CompileError& error) {
    return fail("", error.what(), exit_compile_error);
  } catch (const Error& error) {
    return fail("", error.what(), exit_internal_error);
  } catch (const fs::filesystem_error& error) {
    return fail("", error.what(), exit_user_error);
  } catch (const std::bad_alloc&) {
    return fail("out of memory: ", "the host has none left for this", exit_out_of_memory);
  } catch (const std::exception& error) {
    return fail(std::ferror(stdout) != 0 ? "standard output: " : "internal error: ", error.what(), exit_internal_error);
  }
}

}  // namespace heddle::tools
