// heddle man: the manual page, as docs/heddle.1 holds it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <sstream>
#include <string>

#include "tools/command_tree.h"

namespace heddle::tools {
namespace {

// Text of roff: no character is a command.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
    line_start = c == '\n';
  }
  return out;
}

std::string synopsis(const CommandNode& c) {
  std::string text = "heddle" + c.path;
  for (const CommandOption& o : c.options) {
    if (o.positional) text += o.required ? " " + o.names[0] : fmt::format(" [{}]", o.names[0]);
  }
  if (!c.children.empty()) text += " COMMAND";
  return text + " [OPTIONS]";
}

std::string item(const CommandOption& o) {
  const std::string value = o.positional || o.type.empty() ? "" : " \\fI" + roff(o.type) + "\\fR";
  std::string text = fmt::format(".TP\n\\fB{}\\fR{}\n{}", roff(fmt::format("{}", fmt::join(o.names, ", "))), value,
                                 roff(o.description));
  if (o.positional && !o.choices.empty() && o.description.find(o.choices[0]) == std::string::npos)
    text += roff(fmt::format(": {}", fmt::join(o.choices, ", ")));
  if (!o.initial.empty()) text += fmt::format(" (initially {})", roff(o.initial));
  return text + "\n";
}

std::string footer(const CommandNode& c) {
  return c.footer.empty() ? "" : fmt::format(".PP\n.nf\n{}\n.fi\n", roff(c.footer));
}

std::string command(const CommandNode& c) {
  std::string text = fmt::format(".SS \"{}\"\n{}.\n", roff(synopsis(c)), roff(c.description));
  for (const CommandOption& o : c.options) {
    if (o.names[0] != "-h") text += item(o);
  }
  return text + footer(c);
}

struct Variable {
  const char* name;
  const char* meaning;
};
constexpr std::array<Variable, 13> variables = {{
    {"HEDDLE_DEVICE", "The device where none is named, e.g. vulkan:0."},
    {"HEDDLE_BACKEND_PATH", "Folders with backends as shared libraries, separated by colons."},
    {"HEDDLE_CACHE_DIR", "Where compiled kernels are kept; see heddle cache."},
    {"HEDDLE_CHECK_NUMBERS", "1: stop at the first operation that makes a NaN or an infinity."},
    {"HEDDLE_CORE_UNITS",
     "0: widen bf16 where OpenCL reaches a CPU's instructions for its products (AMX, AVX512-BF16)."},
    {"HEDDLE_DEBUG", "1 to 4: print device times, groups and memory plan, graphs, kernel sources."},
    {"HEDDLE_EAGER", "1: run operation by operation, for a debugger."},
    {"HEDDLE_EXCESS_PRECISION", "1: f16 and bf16 keep f32's digits between the operations of a kernel."},
    {"HEDDLE_PASSES", "Passes of the planner to leave out, e.g. -cse,-fold."},
    {"HEDDLE_PROBE_SECONDS",
     "How long a driver may take to answer when a child process asks it whether it lives (60); 0: drivers are not "
     "asked."},
    {"HEDDLE_QUIET", "1: no line on standard error about kernels being compiled."},
    {"HEDDLE_TF32", "1: let matrix units round f32 operands to 11 bits."},
    {"HEDDLE_TIMEOUT",
     "Seconds after which a device that finishes nothing is given up, with exit code 4; 0: never. While training the "
     "default is 1800, compilation included; elsewhere 0."},
}};

// Without a date: the page changes with the program alone.
std::string page(const CommandNode& root) {
  std::string text =
      fmt::format(".\\\" Printed by `heddle man`; do not edit.\n.TH HEDDLE 1 \"\" \"heddle {}\" \"User Commands\"\n",
                  HEDDLE_VERSION);
  text +=
      ".SH NAME\nheddle \\- train and run neural networks on any vendor\\(aqs device\n.SH SYNOPSIS\n.B heddle\n.I "
      "COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  for (const CommandNode* c : all_commands(root)) {
    if (c != &root) text += command(*c);
  }
  text += ".SH ENVIRONMENT\n";
  for (const Variable& v : variables) text += fmt::format(".TP\n.B {}\n{}\n", v.name, roff(v.meaning));
  return text + ".SH NOTES\n" + footer(root);
}

}  // namespace

void add_man(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("man", "Print the manual page");
  command->footer("Example:\n  heddle man | man -l -");
  command->callback([&cli] { fmt::print("{}", page(command_tree(cli.app))); });
}

}  // namespace heddle::tools
