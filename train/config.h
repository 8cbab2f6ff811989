// Config: every option of a training run, as C++ members, as a TOML file, and as options of a command line.
//
//   train::Config config = train::Config::load("gpt.toml");
//   config.set("optimizer.lr", "3e-4");                     // what a command line says
//   if (config.training.clip_norm > 0) ...
//   write_file_atomically("config.toml", config.str());     // complete: what was not said has its initial value
//
// Purpose: one table, train/config_options.inc, makes the members, keys, flags, help and checks; a new option is one
// row of it. The table [model] belongs to the recipe: its keys are declared by it. Invariants: a value that was set has
// passed its check; str() holds every option and load() of it gives the same Config. Errors: ValueError that names the
// file and the line, or the flag; unknown keys with those that are near; IoError for a file that cannot be read. After
// an error nothing has changed. Thread safety: as a plain value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace heddle::train {

// Types of options.
using Flag = bool;
using Integer = int64_t;
using Number = double;
using Text = std::string;
using Integers = std::vector<int64_t>;
// A type that libstdc++ does not know: it takes a variant of scalars, strings and vectors alone for one that always
// holds a value, and destroys what a copy without memory never made (GCC 12 to 14).
struct Texts : std::vector<std::string> {
  using vector::vector;
  Texts(std::vector<std::string> texts) : vector(std::move(texts)) {}
};
using Value = std::variant<Flag, Integer, Number, Text, Integers, Texts>;

// An option of a recipe's model: a key of [model].
struct ModelOption {
  std::string name;
  Value initial;
  std::string help;
};

struct Config {
#define GROUP(name) struct {
#define OPTION(type, name, initial, flag, check, help) type name = initial;
#define END(name) \
  }               \
  name;
#include "heddle/train/config_options.inc"
#undef GROUP
#undef OPTION
#undef END
  // [model], by key: what was given, and the rest once declare_model() has said what there is.
  std::map<std::string, Value> model;

  static Config load(const std::string& path);
  // The file's values over those that are here.
  void read(const std::string& path);
  // The same of a text; `source` is what errors name.
  void parse(std::string_view toml, const std::string& source);
  // One value as a command line spells it: "3e-4", "true", "512MiB", "1000,2000". `source` is what errors name; the key
  // where it is empty.
  void set(std::string_view key, std::string_view value, std::string_view source = "");

  // Initial values for the keys of [model] that are missing. Refuses keys that are not declared, and values of another
  // type.
  void declare_model(std::span<const ModelOption> options);
  // A declared value.
  template <class T>
  const T& model_value(const std::string& name) const {
    return std::get<T>(model_entry(name));
  }

  // TOML, each line with its help.
  std::string str() const;
  // Keys whose values differ, e.g. "optimizer.lr", in the order of the table.
  std::vector<std::string> differences(const Config& other) const;
  // Keys that set() was called with: what somebody said, even if it is what would have been.
  const std::set<std::string, std::less<>>& given() const { return given_; }

 private:
  void assign(const std::string& key, Value value, const std::string& where);
  const Value& model_entry(const std::string& name) const;

  std::set<std::string, std::less<>> given_;
};

// Of one update: the parts that accumulation computes one after the other are one batch of the loader.
inline int64_t examples_per_update(const Config& c) { return c.training.batch * c.training.accumulate; }

// What an option accepts beside its type.
struct Check {
  double least, most;
  bool open_below = false, open_above = false;  // the ends do not belong to it
  bool bytes = false;                           // text with a unit, e.g. 512MiB, stands for a number
  std::vector<std::string_view> choices = {};   // of a text

  // "a number above 0"; what a message says is expected.
  std::string str(const Value& of_type) const;
  bool accepts(const Value& value) const;
};

// A row of the table.
struct ConfigRow {
  std::string key;   // "optimizer.lr"
  std::string flag;  // "--lr"; empty: none
  std::string help;
  Value initial;
  Check check;
  Value (*get)(const Config& config);
  void (*put)(Config& config, const Value& value);
};
std::span<const ConfigRow> config_rows();
// Null for a key that is none.
const ConfigRow* find_config_row(std::string_view key);

// As TOML spells it.
std::string toml_text(const Value& value);

}  // namespace heddle::train
