// Pickle: Python's pickles (protocols 2 to 5) as data. Internal.
//
// Nothing is called and nothing is imported: a class or function is a value of its name, which must stand in a list of
// known ones, and a call is a value of what would be called and its arguments. The one exception is OrderedDict(),
// which is a dict.
//
// Invariants: values refer to each other by number, so that lists which hold themselves are no danger to who does not
// walk them without end; at most `most_values` of them. Errors: IoError "[who] path: ..." that names what is refused.
// Thread safety: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    number,
    text,
    bytes,
    tuple,
    list,
    dict,
    global,
    call,
    persistent
  };
  Kind kind = Kind::none;
  union {
    int64_t integer = 0;  // of a boolean too
    double number;
  };
  std::string_view text;  // a view into the pickle; of a global "module name"
  // Of a dict: key, value, ...; of a call: what is called, and its arguments; of `persistent`: its id.
  std::vector<uint32_t> items;
};

struct Pickle {
  static constexpr size_t most_values = size_t{1} << 19;

  std::deque<PickleValue> values;
  uint32_t root = 0;
  size_t bytes = 0;  // how long it is; more may stand behind it

  const PickleValue& at(uint32_t number) const { return values[number]; }
  const PickleValue& root_value() const { return values[root]; }
};

// `known`: "module name" of the globals that may be named, as "collections OrderedDict".
Pickle read_pickle(std::span<const uint8_t> pickle, std::span<const std::string_view> known, std::string_view who,
                   std::string_view path);

}  // namespace heddle
