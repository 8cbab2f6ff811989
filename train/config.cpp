#include "heddle/train/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/base/similar.h"
#include "heddle/io/read_file.h"
#include "heddle/train/toml.h"

namespace heddle::train {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

Check any() { return {-infinite, infinite}; }
Check at_least(double least) { return {least, infinite}; }
Check above(double least) { return {least, infinite, true}; }
// least <= value < most.
Check below(double least, double most) { return {least, most, false, true}; }
Check from_to(double least, double most) { return {least, most}; }
// least < value <= most.
Check above_to(double least, double most) { return {least, most, true}; }
Check bytes() { return {.least = 0, .most = infinite, .bytes = true}; }
Check one_of(std::vector<std::string_view> choices) {
  return {.least = -infinite, .most = infinite, .choices = std::move(choices)};
}

std::vector<ConfigRow> make_rows() {
  std::vector<ConfigRow> rows;
#define GROUP(name)                       \
  {                                       \
    constexpr auto group = &Config::name; \
    const std::string table = #name ".";
#define OPTION(type, name, initial, flag, check, help)                              \
  rows.push_back({table + #name, flag, help, (Config().*group).name, check,         \
                  [](const Config& config) { return Value((config.*group).name); }, \
                  [](Config& config, const Value& value) { (config.*group).name = std::get<type>(value); }});
#define END(name) }
#include "heddle/train/config_options.inc"
#undef GROUP
#undef OPTION
#undef END
  return rows;
}

constexpr std::string_view model_table = "model.";

std::string_view table_of(std::string_view key) { return key.substr(0, key.find('.') + 1); }

// What may have been meant: the same table's names that are near, else the same name in other tables, else what the
// table's help calls so, else whole keys that are near.
std::string hint_for(std::string_view key) {
  std::vector<std::string_view> names, same, all, meant;
  std::string words(key.substr(table_of(key).size()));
  std::replace(words.begin(), words.end(), '_', ' ');
  const std::string_view table = table_of(key), name = key.substr(table.size());
  for (const ConfigRow& row : config_rows()) {
    const std::string_view known = row.key;
    all.push_back(known);
    if (table_of(known) == table) names.push_back(known.substr(table.size()));
    if (known.substr(table_of(known).size()) == name) same.push_back(known);
    if (table_of(known) == table && words.size() > 2 && row.help.find(words) != std::string::npos)
      meant.push_back(known);  // "learning_rate": the help of lr says it
  }
  std::vector<std::string> near;
  for (const std::string_view n : similar_names(name, names)) near.push_back(std::string(table) + std::string(n));
  if (!near.empty()) return fmt::format("; did you mean {}?", fmt::join(near, ", "));
  if (same.empty()) same = meant;
  return same.empty() ? did_you_mean(key, all) : fmt::format("; did you mean {}?", fmt::join(same, ", "));
}

[[noreturn]] void unknown_key(const std::string& key, const std::string& where) {
  throw ValueError(fmt::format("[config] {}: unknown key '{}'{}", where, shortened(key), hint_for(key)));
}

std::string_view type_name(const Value& value) {
  constexpr std::array<std::string_view, std::variant_size_v<Value>> names = {
      "true or false", "an integer", "a number", "a text", "a list of integers", "a list of texts"};
  return names[value.index()];
}

// "512MiB", "80 MB", "1000".
std::optional<Value> parsed_bytes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 9> units = {{{"KiB", 0x1p10},
                                                                         {"MiB", 0x1p20},
                                                                         {"GiB", 0x1p30},
                                                                         {"KB", 1e3},
                                                                         {"kB", 1e3},
                                                                         {"MB", 1e6},
                                                                         {"GB", 1e9},
                                                                         {"B", 1},
                                                                         {"", 1}}};
  const auto unit = std::find_if(units.begin(), units.end(), [&](const auto& u) { return text.ends_with(u.first); });
  text.remove_suffix(unit->first.size());
  while (text.ends_with(' ')) text.remove_suffix(1);
  const std::optional<double> count = parse_number<double>(text);
  if (!count || !(*count >= 0) || *count * unit->second > 0x1p62) return std::nullopt;
  return Value(static_cast<int64_t>(*count * unit->second));
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return parts;
}

std::optional<Value> parsed_integers(std::string_view text) {
  Integers values;
  for (const std::string& part : split(text)) {
    const std::optional<int64_t> value = parse_number<int64_t>(part);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return Value(std::move(values));
}

// A command line's text as a value of the same type as `like`.
std::optional<Value> value_from_text(std::string_view text, const Value& like) {
  const auto wrapped = [](auto optional) { return optional ? std::optional<Value>(*optional) : std::nullopt; };
  if (std::holds_alternative<Flag>(like)) {
    if (text != "true" && text != "false") return std::nullopt;
    return Value(text == "true");
  }
  if (std::holds_alternative<Integer>(like)) return wrapped(parse_number<int64_t>(text));
  if (std::holds_alternative<Number>(like)) return wrapped(parse_number<double>(text));
  if (std::holds_alternative<Text>(like)) return Value(std::string(text));
  if (std::holds_alternative<Integers>(like)) return parsed_integers(text);
  return Value(split(text));
}

// A value as one of the same type as `like`: integers serve as numbers, empty lists as any list, one value as a list of
// one, and what a command line says for a list (1000,2000).
std::optional<Value> converted(const Value& value, const Value& like) {
  if (value.index() == like.index()) return value;
  if (std::holds_alternative<Number>(like) && std::holds_alternative<Integer>(value))
    return Value(static_cast<double>(std::get<Integer>(value)));
  if (std::holds_alternative<Texts>(like) && std::holds_alternative<Integers>(value) &&
      std::get<Integers>(value).empty())
    return Value(Texts());
  if (std::holds_alternative<Integers>(like) && std::holds_alternative<Integer>(value))
    return Integers{std::get<Integer>(value)};
  if (std::holds_alternative<Integers>(like) && std::holds_alternative<Text>(value))
    return parsed_integers(std::get<Text>(value));
  if (std::holds_alternative<Texts>(like) && std::holds_alternative<Text>(value))
    return Texts(split(std::get<Text>(value)));
  return std::nullopt;
}

// Without a declaration: what the text looks like.
Value guessed(std::string_view text) {
  for (const Value& like : {Value(Flag()), Value(Integer()), Value(Number())}) {
    if (const std::optional<Value> value = value_from_text(text, like)) return *value;
  }
  return Value(std::string(text));
}

// As a key stands in a TOML file.
std::string key_text(const std::string& name) {
  const bool bare =
      !name.empty() &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == std::string::npos;
  return bare ? name : toml_text(name);
}

bool within(const Check& check, double value) {
  return std::isfinite(value) && (check.open_below ? value > check.least : value >= check.least) &&
         (check.open_above ? value < check.most : value <= check.most);
}

}  // namespace

std::span<const ConfigRow> config_rows() {
  static const std::vector<ConfigRow> rows = make_rows();
  return rows;
}

const ConfigRow* find_config_row(std::string_view key) {
  const auto rows = config_rows();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const ConfigRow& row) { return row.key == key; });
  return found == rows.end() ? nullptr : &*found;
}

std::string Check::str(const Value& of_type) const {
  if (!choices.empty()) return fmt::format("one of {}", fmt::join(choices, ", "));
  if (bytes) return "a number of bytes, e.g. 512MiB";
  std::string text(type_name(of_type));
  if (least > -infinite)
    text += fmt::format("{} {}", open_below ? " above" : most < infinite ? " from" : " of at least", least);
  if (most < infinite) text += fmt::format(" {} {}", open_above ? "to below" : "to", most);
  return text;
}

bool Check::accepts(const Value& value) const {
  if (const auto* number = std::get_if<Number>(&value)) return within(*this, *number);
  if (const auto* integer = std::get_if<Integer>(&value)) return within(*this, static_cast<double>(*integer));
  if (const auto* list = std::get_if<Integers>(&value))
    return std::all_of(list->begin(), list->end(), [&](int64_t i) { return within(*this, static_cast<double>(i)); });
  const auto* text = std::get_if<Text>(&value);
  return text == nullptr || choices.empty() || std::find(choices.begin(), choices.end(), *text) != choices.end();
}

Config Config::load(const std::string& path) {
  Config config;
  config.read(path);
  return config;
}

void Config::read(const std::string& path) { parse(read_text_file(path, "config"), path); }

void Config::parse(std::string_view toml, const std::string& source) {
  Config changed = *this;
  for (TomlEntry& entry : read_toml(toml, source))
    changed.assign(entry.key, std::move(entry.value), fmt::format("{}:{}", source, entry.line));
  *this = std::move(changed);
}

void Config::assign(const std::string& key, Value value, const std::string& where) {
  if (key.starts_with(model_table)) {
    model[key.substr(model_table.size())] = std::move(value);
    return;
  }
  const ConfigRow* row = find_config_row(key);
  if (row == nullptr) unknown_key(key, where);
  std::optional<Value> fitting = converted(value, row->initial);
  if (!fitting && row->check.bytes && std::holds_alternative<Text>(value))
    fitting = parsed_bytes(std::get<Text>(value));
  if (!fitting || !row->check.accepts(*fitting))
    throw ValueError(fmt::format("[config] {}: {} is {}, expected {}", where, key, shortened(toml_text(value)),
                                 row->check.str(row->initial)));
  row->put(*this, *fitting);
}

void Config::set(std::string_view key, std::string_view value, std::string_view source) {
  const std::string name = source.empty() ? std::string(key) : std::string(source);
  if (key.starts_with(model_table)) {
    model[std::string(key.substr(model_table.size()))] = guessed(value);
    given_.emplace(key);
    return;
  }
  const ConfigRow* row = find_config_row(key);
  if (row == nullptr) unknown_key(std::string(key), "the command line");
  const std::optional<Value> fitting = row->check.bytes ? parsed_bytes(value) : value_from_text(value, row->initial);
  if (!fitting || !row->check.accepts(*fitting))
    throw ValueError(
        fmt::format("[config] {} is '{}', expected {}", name, shortened(value), row->check.str(row->initial)));
  row->put(*this, *fitting);
  given_.insert(row->key);
}

void Config::declare_model(std::span<const ModelOption> options) {
  std::vector<std::string_view> known;
  std::map<std::string, Value> complete;
  for (const ModelOption& option : options) {
    known.push_back(option.name);
    complete[option.name] = option.initial;
  }
  for (const auto& [name, value] : model) {
    const auto declared = complete.find(name);
    if (declared == complete.end()) {
      const std::string all = known.empty() ? "; it has none" : fmt::format("; known: {}", fmt::join(known, ", "));
      throw ValueError(fmt::format("[config] model.{}: no option of the model of {}{}", shortened(name), run.recipe,
                                   did_you_mean(name, known, all)));
    }
    const std::optional<Value> fitting = converted(value, declared->second);
    if (!fitting)
      throw ValueError(fmt::format("[config] model.{} is {}, expected {}", name, shortened(toml_text(value)),
                                   type_name(declared->second)));
    declared->second = *fitting;
  }
  model = std::move(complete);
}

const Value& Config::model_entry(const std::string& name) const {
  const auto found = model.find(name);
  if (found == model.end()) throw ValueError(fmt::format("[config] model.{} was not declared", name));
  return found->second;
}

std::string Config::str() const {
  std::string text = "# Every option of a run of heddle train.\n", table;
  for (const ConfigRow& row : config_rows()) {
    const size_t dot = row.key.find('.');
    if (row.key.substr(0, dot) != table) {
      table = row.key.substr(0, dot);
      text += fmt::format("\n[{}]\n", table);
    }
    text += fmt::format("{} = {}  # {}\n", row.key.substr(dot + 1), toml_text(row.get(*this)), row.help);
  }
  text += "\n[model]\n";
  for (const auto& [name, value] : model) text += fmt::format("{} = {}\n", key_text(name), toml_text(value));
  return text;
}

std::vector<std::string> Config::differences(const Config& other) const {
  std::vector<std::string> keys;
  for (const ConfigRow& row : config_rows()) {
    if (row.get(*this) != row.get(other)) keys.push_back(row.key);
  }
  std::map<std::string, Value> all = model;
  all.insert(other.model.begin(), other.model.end());
  for (const auto& [name, value] : all) {
    const auto here = model.find(name), there = other.model.find(name);
    if (here == model.end() || there == other.model.end() || here->second != there->second)
      keys.push_back(std::string(model_table) + name);
  }
  return keys;
}

}  // namespace heddle::train
