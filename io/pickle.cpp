// The machine that Python's pickletools describes: a stack, marks in it, and a memo.
#include "heddle/io/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/io/little_endian.h"

namespace heddle {
namespace {

using Kind = PickleValue::Kind;
using Bytes = std::span<const uint8_t>;

constexpr std::string_view ordered_dict = "collections OrderedDict";

enum Op : uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  binfloat = 'G',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binpersid = 'Q',
  reduce = 'R',
  binstring = 'T',
  short_binstring = 'U',
  binunicode = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  empty_dict = '}',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  empty_list = ']',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  empty_tuple = ')',
  setitems = 'u',
  binbytes = 'B',
  short_binbytes = 'C',
  proto = 0x80,
  newobj = 0x81,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  empty_set = 0x8f,
  frozenset = 0x91,
  newobj_ex = 0x92,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95,
};

class PickleMachine {
 public:
  PickleMachine(Bytes in, std::span<const std::string_view> known, std::string_view who, std::string_view path)
      : in_(in), known_(known), who_(who), path_(path) {}

  Pickle run() {
    if (byte() != proto) fail("it does not begin as a pickle of protocol 2 or later does");
    if (const uint8_t version = byte(); version < 2 || version > 5)
      fail(fmt::format("its pickle is of protocol {}; 2 to 5 are read", version));
    for (uint8_t op = byte(); op != stop; op = byte()) step(op);
    result_.root = take();
    result_.bytes = at_;
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(fmt::format("[{}] {}: {}", who_, path_, what));
  }

  // ---- bytes
  Bytes bytes(uint64_t count) {
    if (count > in_.size() - at_) fail("truncated pickle");
    const Bytes taken = in_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return taken;
  }
  uint8_t byte() { return bytes(1)[0]; }
  uint64_t number(size_t width) { return little_endian(bytes(width)); }
  std::string_view text(uint64_t length) {
    const Bytes raw = bytes(length);
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  std::string_view line() {
    const size_t begin = at_;
    while (byte() != '\n') {
    }
    return {reinterpret_cast<const char*>(in_.data()) + begin, at_ - 1 - begin};
  }

  // ---- stack
  uint32_t make(PickleValue value) {
    if (result_.values.size() >= Pickle::most_values)
      fail(fmt::format("its pickle makes more than {} values", Pickle::most_values));
    result_.values.push_back(std::move(value));
    return static_cast<uint32_t>(result_.values.size() - 1);
  }
  void push(PickleValue value) { stack_.push_back(make(std::move(value))); }
  void push_integer(int64_t value, Kind kind = Kind::integer) {
    PickleValue made;
    made.kind = kind;
    made.integer = value;
    push(std::move(made));
  }
  void push_text(Kind kind, std::string_view text) {
    PickleValue made;
    made.kind = kind;
    made.text = text;
    push(std::move(made));
  }
  void push_items(Kind kind, std::vector<uint32_t> items) {
    PickleValue made;
    made.kind = kind;
    made.items = std::move(items);
    push(std::move(made));
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  uint32_t take() {
    if (stack_.size() <= floor()) fail("its pickle takes a value that is not there");
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::vector<uint32_t> take(size_t count) {
    std::vector<uint32_t> items(count);
    for (size_t i = count; i-- > 0;) items[i] = take();
    return items;
  }
  std::vector<uint32_t> take_to_mark() {
    if (marks_.empty()) fail("its pickle goes back to a mark that is not there");
    std::vector<uint32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }

  // ---- steps
  void add_items(Kind kind, const std::vector<uint32_t>& items) {
    const uint32_t target = take();
    stack_.push_back(target);
    PickleValue& value = result_.values[target];
    if (value.kind != kind || (kind == Kind::dict && items.size() % 2 != 0))
      fail("its pickle adds to what is no list or dict");
    value.items.insert(value.items.end(), items.begin(), items.end());
  }
  void push_global(std::string_view name) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      std::string dotted = shortened(name);
      std::replace(dotted.begin(), dotted.end(), ' ', '.');
      fail(
          fmt::format("its pickle names '{}', which is neither a tensor nor a container; save a state_dict()", dotted));
    }
    push_text(Kind::global, *std::find(known_.begin(), known_.end(), name));
  }
  void call() {
    const std::vector<uint32_t> parts = take(2);
    const PickleValue &callee = result_.at(parts[0]), &arguments = result_.at(parts[1]);
    if (callee.kind != Kind::global || arguments.kind != Kind::tuple) fail("its pickle calls what is no function");
    if (callee.text != ordered_dict) return push_items(Kind::call, parts);
    if (!arguments.items.empty()) fail("its pickle makes an OrderedDict of arguments");
    push_items(Kind::dict, {});
  }
  // The state of an object: attributes of a dict are passed over.
  void set_state() {
    take();
    const uint32_t target = take();
    if (result_.at(target).kind != Kind::dict) fail("its pickle sets the state of what is no dict");
    stack_.push_back(target);
  }
  void push_long(size_t width) {
    if (width > 8) {
      bytes(width);
      return push_text(Kind::bytes, {reinterpret_cast<const char*>(in_.data()) + at_ - width, width});
    }
    const uint64_t raw = number(width);
    const int unused = 64 - 8 * static_cast<int>(width);
    push_integer(width == 0 ? 0 : static_cast<int64_t>(raw << unused) >> unused);
  }
  void push_number() {
    uint64_t bits = 0;
    for (const uint8_t b : bytes(8)) bits = bits << 8 | b;
    PickleValue made;
    made.kind = Kind::number;
    made.number = std::bit_cast<double>(bits);
    push(std::move(made));
  }
  void get(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail("its pickle remembers what it never made");
    stack_.push_back(found->second);
  }
  void put(uint64_t index) {
    const uint32_t top = take();
    stack_.push_back(top);
    memo_[index] = top;
    if (memo_.size() > Pickle::most_values) fail("its pickle remembers more values than are read");
  }
  void global_of_stack() {
    const std::vector<uint32_t> parts = take(2);
    if (result_.at(parts[0]).kind != Kind::text || result_.at(parts[1]).kind != Kind::text)
      fail("its pickle names a global by what is no text");
    push_global(fmt::format("{} {}", result_.at(parts[0]).text, result_.at(parts[1]).text));
  }

  void step(uint8_t op) {
    if (stack_.size() > 4 * Pickle::most_values || marks_.size() > Pickle::most_values)
      fail("its pickle holds more values than are read");
    switch (op) {
      case mark:
        return marks_.push_back(stack_.size());
      case pop:
        take();
        return;
      case pop_mark:
        take_to_mark();
        return;
      case none:
        return push({});
      case newtrue:
      case newfalse:
        return push_integer(op == newtrue ? 1 : 0, Kind::boolean);
      case binint:
        return push_integer(static_cast<int32_t>(static_cast<uint32_t>(number(4))));
      case binint1:
        return push_integer(byte());
      case binint2:
        return push_integer(static_cast<int64_t>(number(2)));
      case long1:
        return push_long(byte());
      case binfloat:
        return push_number();
      case global: {
        const std::string_view module = line();
        return push_global(fmt::format("{} {}", module, line()));
      }
      case stack_global:
        return global_of_stack();
      case reduce:
        return call();
      case build:
        return set_state();
      case binpersid:
        return push_items(Kind::persistent, {take()});
      case frame:
        bytes(8);  // how long it is; the bytes follow
        return;
      default:
        return memory_step(op);
    }
  }

  void memory_step(uint8_t op) {
    switch (op) {
      case binget:
        return get(byte());
      case long_binget:
        return get(number(4));
      case binput:
        return put(byte());
      case long_binput:
        return put(number(4));
      case memoize:
        return put(memo_.size());
      default:
        return text_step(op);
    }
  }

  void text_step(uint8_t op) {
    switch (op) {
      case short_binstring:
      case short_binunicode:
        return push_text(Kind::text, text(byte()));
      case binstring:
      case binunicode:
        return push_text(Kind::text, text(number(4)));
      case binunicode8:
        return push_text(Kind::text, text(number(8)));
      case short_binbytes:
        return push_text(Kind::bytes, text(byte()));
      case binbytes:
        return push_text(Kind::bytes, text(number(4)));
      case binbytes8:
        return push_text(Kind::bytes, text(number(8)));
      default:
        return container_step(op);
    }
  }

  void container_step(uint8_t op) {
    switch (op) {
      case empty_tuple:
        return push_items(Kind::tuple, {});
      case tuple1:
      case tuple2:
      case tuple3:
        return push_items(Kind::tuple, take(static_cast<size_t>(op - tuple1 + 1)));
      case tuple:
        return push_items(Kind::tuple, take_to_mark());
      case empty_list:
        return push_items(Kind::list, {});
      case append:
        return add_items(Kind::list, take(1));
      case appends:
        return add_items(Kind::list, take_to_mark());
      case empty_dict:
        return push_items(Kind::dict, {});
      case setitem:
        return add_items(Kind::dict, take(2));
      case setitems:
        return add_items(Kind::dict, take_to_mark());
      case newobj:
      case newobj_ex:
        fail("its pickle makes an object of a class; save a state_dict()");
      case empty_set:
      case frozenset:
        fail("its pickle holds a set, which is not read");
      default:
        fail(fmt::format("its pickle has the operation 0x{:02x}, which is not read", op));
    }
  }

  Bytes in_;
  size_t at_ = 0;
  std::span<const std::string_view> known_;
  std::string_view who_, path_;
  Pickle result_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, uint32_t> memo_;
};

}  // namespace

Pickle read_pickle(Bytes pickle, std::span<const std::string_view> known, std::string_view who, std::string_view path) {
  return PickleMachine(pickle, known, who, path).run();
}

}  // namespace heddle
