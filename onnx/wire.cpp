#include "heddle/onnx/wire.h"

#include <fmt/format.h>

#include <cstdint>

#include "heddle/core/base/error.h"

namespace heddle::onnx {
namespace {

enum Message : uint8_t {
  none,
  model,
  graph,
  node,
  attribute,
  tensor,
  sparse,
  annotation,
  value,
  type,
  tensor_type,
  wrapped_type,
  map_type,
  shape,
  function,
  training,
  leaf
};

// Field numbers whose content is a message, or packed numbers of so many bytes each in memory.
struct Field {
  Message owner;
  uint32_t number;
  Message inner;
  uint32_t packed;
};

constexpr Field fields[] = {
    {model, 7, graph, 0},       {model, 8, leaf, 0},        {model, 14, leaf, 0},       {model, 20, training, 0},
    {model, 25, function, 0},   {graph, 1, node, 0},        {graph, 5, tensor, 0},      {graph, 11, value, 0},
    {graph, 12, value, 0},      {graph, 13, value, 0},      {graph, 14, annotation, 0}, {graph, 15, sparse, 0},
    {annotation, 2, leaf, 0},   {node, 5, attribute, 0},    {attribute, 5, tensor, 0},  {attribute, 6, graph, 0},
    {attribute, 7, none, 4},    {attribute, 8, none, 8},    {attribute, 10, tensor, 0}, {attribute, 11, graph, 0},
    {attribute, 14, type, 0},   {attribute, 15, type, 0},   {attribute, 22, sparse, 0}, {attribute, 23, sparse, 0},
    {sparse, 1, tensor, 0},     {sparse, 2, tensor, 0},     {sparse, 3, none, 8},       {tensor, 1, none, 8},
    {tensor, 3, leaf, 0},       {tensor, 4, none, 4},       {tensor, 5, none, 4},       {tensor, 7, none, 8},
    {tensor, 10, none, 8},      {tensor, 11, none, 8},      {tensor, 13, leaf, 0},      {value, 2, type, 0},
    {type, 1, tensor_type, 0},  {type, 4, wrapped_type, 0}, {type, 5, map_type, 0},     {type, 8, tensor_type, 0},
    {type, 9, wrapped_type, 0}, {tensor_type, 2, shape, 0}, {wrapped_type, 1, type, 0}, {map_type, 2, type, 0},
    {shape, 1, leaf, 0},        {function, 7, node, 0},     {function, 9, leaf, 0},     {training, 1, graph, 0},
    {training, 2, graph, 0},    {training, 3, leaf, 0},     {training, 4, leaf, 0},
};

const Field* field_of(Message owner, uint32_t number) {
  for (const Field& field : fields) {
    if (field.owner == owner && field.number == number) return &field;
  }
  return nullptr;
}

constexpr uint64_t message_bytes = 320;  // of the largest message, and its place in a list
constexpr uint64_t text_bytes = 48;

class Scan {
 public:
  Scan(const std::string& path, uint64_t file) : path_(path), allowed_(file + (uint64_t{64} << 20)) {}

  // `graphs` counts those around, `depth` all messages.
  void message(std::string_view bytes, Message kind, int graphs, int depth) {
    if (kind == graph && ++graphs > max_nesting) fail(fmt::format("graphs are nested more than {} deep", max_nesting));
    if (depth > 4 * max_nesting) fail("messages are nested too deep");
    take(message_bytes);
    while (!bytes.empty()) {
      const uint64_t tag = varint(bytes);
      field(bytes, kind, tag, graphs, depth);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw IoError(fmt::format("[onnx] {}: {}", path_, what)); }
  void take(uint64_t bytes) {
    taken_ += bytes;
    if (taken_ > allowed_) fail("its messages would take more memory than twice the file and 64 MiB");
  }
  void skip(std::string_view& bytes, uint64_t count) {
    if (count > bytes.size()) fail("the file is cut off, or a length in it is wrong");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes.empty()) fail("the file is cut off");
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    fail("a number in it is longer than 64 bits");
  }
  void field(std::string_view& bytes, Message kind, uint64_t tag, int graphs, int depth) {
    switch (tag & 7) {
      case 0:
        varint(bytes);
        return take(8);
      case 1:
        skip(bytes, 8);
        return take(8);
      case 5:
        skip(bytes, 4);
        return take(4);
      case 2:
        return block(bytes, field_of(kind, static_cast<uint32_t>(tag >> 3)), graphs, depth);
      default:
        fail("not an ONNX file, or a damaged one");
    }
  }
  void block(std::string_view& bytes, const Field* field, int graphs, int depth) {
    const uint64_t length = varint(bytes);
    const std::string_view inner = bytes.substr(0, static_cast<size_t>(std::min<uint64_t>(length, bytes.size())));
    skip(bytes, length);
    if (field && field->inner != none) return message(inner, field->inner, graphs, depth + 1);
    if (field && field->packed) return packed(inner, field->packed);
    take(text_bytes);
  }
  // Each number ends with a byte below 128, or has its bytes; a list grows by doubling.
  void packed(std::string_view inner, uint64_t bytes) {
    uint64_t ends = 0;
    for (const char c : inner) ends += static_cast<uint8_t>(c) < 128;
    const uint64_t in_memory = ends * bytes;
    take(in_memory > inner.size() ? 2 * in_memory : 0);
  }

  const std::string& path_;
  uint64_t allowed_, taken_ = 0;
};

}  // namespace

void check_wire(std::string_view bytes, WireRoot root, const std::string& path) {
  if (bytes.size() >= (size_t{1} << 31))
    throw IoError(
        fmt::format("[onnx] {}: {} bytes; a file without external data has less than 2 GiB", path, bytes.size()));
  Scan(path, bytes.size()).message(bytes, root == WireRoot::model ? model : tensor, 0, 0);
}

}  // namespace heddle::onnx
