#include "heddle/core/contract/kernel_source.h"

#include <fmt/format.h>

#include "heddle/core/base/hash.h"

namespace heddle {
namespace {

std::string_view access_name(Access access) {
  switch (access) {
    case Access::read:
      return "in";
    case Access::write:
      return "out";
    case Access::read_write:
      return "inout";
  }
  return "?";
}

std::string_view constant_type(ConstParam::Type type) {
  switch (type) {
    case ConstParam::Type::u32:
      return "uint";
    case ConstParam::Type::i32:
      return "int";
    case ConstParam::Type::f32:
      return "float";
  }
  return "?";
}

// Feeds fields into one hash; each string carries its length, so that ("ab", "c") and ("a", "bc") differ.
struct Hasher {
  uint64_t value = 0x48444b31u;  // "HDK1": change it when the meaning of a source changes
  void add(uint64_t x) { value = hash_combine(value, x); }
  void add(std::string_view s) {
    add(s.size());
    add(hash_string(s));
  }
};

}  // namespace

// The name, origin and line are left out: they change messages, not code.
uint64_t KernelSource::hash() const {
  Hasher h;
  h.add(buffers.size());
  for (const auto& b : buffers) {
    h.add(b.name);
    h.add(static_cast<uint64_t>(b.dtype) | static_cast<uint64_t>(b.access) << 8 |
          static_cast<uint64_t>(b.may_alias) << 16);
  }
  h.add(constants.size());
  for (const auto& c : constants) {
    h.add(c.name);
    h.add(static_cast<uint64_t>(c.type));
  }
  h.add(shared.size());
  for (const auto& s : shared) {
    h.add(s.name);
    h.add(s.type);
    h.add(s.count);
  }
  for (const uint32_t lanes : group) h.add(lanes);
  h.add(defines.size());
  for (const auto& [key, text] : defines) {
    h.add(key);
    h.add(text);
  }
  h.add(helpers);
  h.add(body);
  return h.value;
}

std::string KernelSource::str() const {
  std::string text = fmt::format("kernel {}  // {}\n", name, hex64(hash()));
  for (const auto& b : buffers) {
    text += fmt::format("  {:5} {} {}{}\n", access_name(b.access), name_of(b.dtype), b.name,
                        b.may_alias ? " (may alias)" : "");
  }
  for (const auto& c : constants) text += fmt::format("  const {} {}\n", constant_type(c.type), c.name);
  for (const auto& s : shared) text += fmt::format("  shared {} {}[{}]\n", s.type, s.name, s.count);
  text += fmt::format("  group {} {} {}\n", group[0], group[1], group[2]);
  for (const auto& [key, value] : defines) text += fmt::format("  define {} = {}\n", key, value);
  if (!helpers.empty()) text += "helpers:\n" + helpers + (helpers.back() == '\n' ? "" : "\n");
  return text + "body:  // " + origin + fmt::format(":{}\n", first_line) + body +
         (body.empty() || body.back() == '\n' ? "" : "\n");
}

uint64_t array_bytes(const SharedParam& array) { return (uint64_t{array.count} * 4 + 15) / 16 * 16; }

uint64_t shared_bytes(const KernelSource& source) {
  uint64_t bytes = 0;
  for (const SharedParam& array : source.shared) bytes += array_bytes(array);
  return bytes;
}

}  // namespace heddle
