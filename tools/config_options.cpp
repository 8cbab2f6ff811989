#include "tools/config_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "heddle/core/base/error.h"

namespace heddle::tools {
namespace {

// What help and completion show behind a flag: the choices where there are some, as "{a,b}".
std::string type_text(const train::ConfigRow& row) {
  if (!row.check.choices.empty()) return fmt::format("{{{}}}", fmt::join(row.check.choices, ","));
  if (row.check.bytes) return "BYTES";
  constexpr std::array<const char*, std::variant_size_v<train::Value>> names = {"",     "INTEGER",  "NUMBER",
                                                                                "TEXT", "INTEGERS", "TEXTS"};
  return names[row.initial.index()];
}

// Without quotes and brackets, as one types it.
std::string initial_text(const train::ConfigRow& row) {
  if (const auto* text = std::get_if<train::Text>(&row.initial)) return *text;
  const std::string toml = train::toml_text(row.initial);
  return toml == "[]" ? "" : toml;
}

// "--keep-best" -> "--keep-best,!--no-keep-best".
std::string both_ways(const std::string& flag) { return fmt::format("{},!--no-{}", flag, flag.substr(2)); }

}  // namespace

void ConfigOptions::add_row(CLI::App& command, const train::ConfigRow& row) {
  const auto give = [this, key = row.key, flag = row.flag](const std::string& value) {
    given_.push_back({key, value, flag});
  };
  CLI::Option* option = nullptr;
  if (std::holds_alternative<train::Flag>(row.initial)) {
    option = command.add_flag_function(
        both_ways(row.flag), [give](int64_t count) { give(count > 0 ? "true" : "false"); }, row.help);
  } else {
    option = command.add_option_function<std::string>(row.flag, give, row.help)
                 ->type_name(type_text(row))
                 ->default_str(initial_text(row));
  }
  option->group(row.key.substr(0, row.key.find('.')));
}

void ConfigOptions::add_to(CLI::App& command, const std::vector<std::string>& without) {
  command.add_option("--config", file_, "TOML file with options, as a run's config.toml; flags go over it")
      ->type_name("FILE");
  command
      .add_option("--set", assignments_, "Any option by its key in the file, e.g. optimizer.lr=3e-4 or model.layers=4")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->expected(1);
  for (const train::ConfigRow& row : train::config_rows()) {
    if (!row.flag.empty() && std::ranges::find(without, row.flag) == without.end()) add_row(command, row);
  }
}

void ConfigOptions::apply(train::Config& config) const {
  if (!file_.empty()) config.read(file_);
  for (const Given& given : given_) config.set(given.key, given.value, given.flag);
  for (const std::string& assignment : assignments_) {
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos)
      throw ValueError(fmt::format("[config] --set is '{}', expected KEY=VALUE", assignment));
    config.set(assignment.substr(0, equals), assignment.substr(equals + 1));
  }
}

}  // namespace heddle::tools
