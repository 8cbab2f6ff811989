#include "heddle/deploy/c_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "heddle/core/dialect/c_text.h"

namespace heddle {

std::string_view c_port_type(DType dtype) {
  switch (dtype) {
    case DType::i32:
      return "int32_t";
    case DType::i8:
      return "int8_t";
    case DType::f16:
    case DType::bf16:
      return "uint16_t";
    case DType::u8:
    case DType::boolean:
      return "uint8_t";
    default:
      return c_type(dtype);
  }
}

std::string_view c_word_type(size_t bytes) {
  return bytes == 1 ? "uint8_t" : bytes == 2 ? "uint16_t" : bytes == 4 ? "uint32_t" : "uint64_t";
}

std::string c_elements(std::span<const uint8_t> bytes, size_t size) {
  constexpr size_t row = 100;  // characters
  const char* ending = size == 8 ? "ULL" : "u";
  std::string text = "{";
  size_t begin = 0;
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    if (at > 0) text += ",";
    if (text.size() - begin > row) {
      text += "\n";
      begin = text.size();
    }
    size == 1 ? fmt::format_to(std::back_inserter(text), "{}", value)
              : fmt::format_to(std::back_inserter(text), "0x{:x}{}", value, ending);
  }
  return bytes.size() < size ? "{0}" : text + "}";
}

std::string_view c_constant_type(ConstParam::Type type) {
  return type == ConstParam::Type::u32 ? "unsigned int" : type == ConstParam::Type::i32 ? "int" : "float";
}

std::string c_constant(ConstParam::Type type, uint32_t word) {
  if (type == ConstParam::Type::u32) return fmt::format("{}u", word);
  if (type == ConstParam::Type::i32) {
    const auto value = std::bit_cast<int32_t>(word);
    return value == INT32_MIN ? "(-2147483647 - 1)" : fmt::format("{}", value);
  }
  const auto value = std::bit_cast<float>(word);
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  return fmt::format("{:a}f", value);
}

std::string c_function(const CModel& model, const CModel::Entry& entry) {
  const std::string name = model.name + "_run";
  return entry.bucket.empty() ? name : fmt::format("{}_{}", name, c_name(entry.bucket));
}

std::vector<std::string> c_ports(const std::vector<ModelImage::Port>& ports, std::string_view prefix) {
  std::vector<std::string> names;
  for (const ModelImage::Port& port : ports) {
    std::string name = fmt::format("{}_{}", prefix, c_name(port.name));
    if (std::ranges::find(names, name) != names.end()) name += fmt::format("_{}", names.size());
    names.push_back(std::move(name));
  }
  return names;
}

std::string c_prototype(const CModel& model, const CModel::Entry& entry) {
  std::string list;
  const auto add = [&](const ModelImage::Port& port, const std::string& name, const char* constness) {
    list += fmt::format("{}{}{}* {}", list.empty() ? "" : ", ", constness, c_port_type(port.dtype), name);
  };
  const std::vector<std::string> in = c_ports(entry.image.inputs, "in"), out = c_ports(entry.image.outputs, "out");
  for (size_t i = 0; i < in.size(); ++i) add(entry.image.inputs[i], in[i], "const ");
  for (size_t i = 0; i < out.size(); ++i) add(entry.image.outputs[i], out[i], "");
  return fmt::format("void {}({})", c_function(model, entry), list.empty() ? "void" : list);
}

}  // namespace heddle
