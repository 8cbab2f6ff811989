// A writer (and a reader of a few fields) of protobuf's wire format: models for tests that no library made.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::tests {

class Wire {
 public:
  Wire& number(uint32_t field, uint64_t value) {
    varint(uint64_t{field} << 3);
    varint(value);
    return *this;
  }
  Wire& text(uint32_t field, std::string_view value) {
    varint(uint64_t{field} << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Wire& message(uint32_t field, const Wire& inner) { return text(field, inner.bytes_); }
  Wire& real(uint32_t field, float value) {
    varint(uint64_t{field} << 3 | 5);
    bytes_.append(reinterpret_cast<const char*>(&value), 4);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// ---- the messages of onnx.proto that tests write

using Names = std::vector<std::string>;

inline Wire attribute(const std::string& name, int64_t value) {
  return Wire().text(1, name).number(3, static_cast<uint64_t>(value)).number(20, 2);
}
inline Wire attribute(const std::string& name, const std::string& value) {
  return Wire().text(1, name).text(4, value).number(20, 3);
}
inline Wire attribute(const std::string& name, const std::vector<int64_t>& values) {
  Wire wire = Wire().text(1, name);
  for (const int64_t value : values) wire.number(8, static_cast<uint64_t>(value));
  return wire.number(20, 7);
}
inline Wire attribute_real(const std::string& name, float value) {
  return Wire().text(1, name).real(2, value).number(20, 1);
}
inline Wire attribute_graph(const std::string& name, const Wire& graph) {
  return Wire().text(1, name).message(6, graph).number(20, 5);
}
inline Wire attribute_tensor(const std::string& name, const Wire& tensor) {
  return Wire().text(1, name).message(5, tensor).number(20, 4);
}
inline Wire attribute_ref(const std::string& name, const std::string& of_function, int type) {
  return Wire().text(1, name).text(21, of_function).number(20, static_cast<uint64_t>(type));
}

inline Wire node(const std::string& op, const Names& inputs, const Names& outputs,
                 const std::vector<Wire>& attributes = {}, const std::string& name = "",
                 const std::string& domain = "") {
  Wire wire;
  for (const std::string& input : inputs) wire.text(1, input);
  for (const std::string& output : outputs) wire.text(2, output);
  if (!name.empty()) wire.text(3, name);
  wire.text(4, op);
  for (const Wire& a : attributes) wire.message(5, a);
  if (!domain.empty()) wire.text(7, domain);
  return wire;
}

inline Wire tensor(const std::string& name, int type, const std::vector<int64_t>& dims, std::string_view raw) {
  Wire wire;
  for (const int64_t dim : dims) wire.number(1, static_cast<uint64_t>(dim));
  return wire.number(2, static_cast<uint64_t>(type)).text(8, name).text(9, raw);
}
template <class T>
Wire tensor(const std::string& name, int type, const std::vector<int64_t>& dims, const std::vector<T>& values) {
  return tensor(name, type, dims,
                std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
}

constexpr int64_t unnamed = -1000;  // a dimension that is called "?"
// A port; a dimension below 0 is called N, N1, ... by its number.
inline Wire port(const std::string& name, int type, const std::vector<int64_t>& dims) {
  Wire shape;
  for (const int64_t dim : dims)
    shape.message(1, dim == unnamed ? Wire().text(2, "?")
                     : dim < 0      ? Wire().text(2, "N" + std::to_string(-dim))
                                    : Wire().number(1, static_cast<uint64_t>(dim)));
  return Wire().text(1, name).message(
      2, Wire().message(1, Wire().number(1, static_cast<uint64_t>(type)).message(2, shape)));
}

inline Wire graph(const std::vector<Wire>& nodes, const std::vector<Wire>& inputs, const std::vector<Wire>& outputs,
                  const std::vector<Wire>& constants = {}) {
  Wire wire;
  for (const Wire& n : nodes) wire.message(1, n);
  wire.text(2, "g");
  for (const Wire& c : constants) wire.message(5, c);
  for (const Wire& i : inputs) wire.message(11, i);
  for (const Wire& o : outputs) wire.message(12, o);
  return wire;
}

inline Wire opset(int version, const std::string& domain = "") {
  Wire wire;
  if (!domain.empty()) wire.text(1, domain);
  return wire.number(2, static_cast<uint64_t>(version));
}

inline std::string model(const Wire& graph, int version = 17, const std::vector<Wire>& functions = {},
                         const std::vector<Wire>& opsets = {}) {
  Wire wire;
  wire.number(1, 8).message(7, graph).message(8, opset(version));
  for (const Wire& o : opsets) wire.message(8, o);
  for (const Wire& f : functions) wire.message(25, f);
  return wire.bytes();
}

inline constexpr int f32 = 1, i64 = 7, text_type = 8, boolean = 9;

// ---- reading

// The contents of fields of bytes in a message, in order; other fields are passed over.
inline std::vector<std::pair<uint32_t, std::string>> blocks_of(std::string_view bytes) {
  std::vector<std::pair<uint32_t, std::string>> blocks;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0; !bytes.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    return value;
  };
  while (!bytes.empty()) {
    const uint64_t tag = varint();
    if ((tag & 7) == 0) {
      varint();
    } else if ((tag & 7) == 2) {
      const uint64_t length = varint();
      blocks.emplace_back(static_cast<uint32_t>(tag >> 3), std::string(bytes.substr(0, length)));
      bytes.remove_prefix(std::min<size_t>(length, bytes.size()));
    } else {
      bytes.remove_prefix(std::min<size_t>((tag & 7) == 1 ? 8 : 4, bytes.size()));
    }
  }
  return blocks;
}

}  // namespace heddle::tests
