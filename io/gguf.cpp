#include "heddle/io/gguf.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/io/gguf_reader.h"

namespace heddle {
namespace {

constexpr std::array<std::string_view, gguf_type_count> names = {"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                                                 "bool", "text", "array", "u64", "i64", "f64"};

template <class T>
T as(std::span<const uint8_t> raw) {
  T value;
  std::memcpy(&value, raw.data(), sizeof value);
  return value;
}

// What no u64 or i64 says: the number, and whether it is below zero.
struct Integer {
  uint64_t bits = 0;
  bool negative = false, valid = true;
};

Integer signed_integer(int64_t value) { return {static_cast<uint64_t>(value), value < 0, true}; }

Integer integer_of(GgufType type, std::span<const uint8_t> raw) {
  switch (type) {
    case GgufType::u8:
      return {as<uint8_t>(raw)};
    case GgufType::u16:
      return {as<uint16_t>(raw)};
    case GgufType::u32:
      return {as<uint32_t>(raw)};
    case GgufType::u64:
      return {as<uint64_t>(raw)};
    case GgufType::i8:
      return signed_integer(as<int8_t>(raw));
    case GgufType::i16:
      return signed_integer(as<int16_t>(raw));
    case GgufType::i32:
      return signed_integer(as<int32_t>(raw));
    case GgufType::i64:
      return signed_integer(as<int64_t>(raw));
    default:
      return {0, false, false};
  }
}

}  // namespace

std::string_view name_of(GgufType type) { return names[static_cast<size_t>(type)]; }

void GgufValue::refuse(const char* wanted) const {
  throw ValueError(fmt::format("[gguf] a value is of type {}, expected {}", name_of(type_), wanted));
}

uint64_t GgufValue::as_unsigned() const {
  const Integer value = integer_of(type_, raw_);
  if (!value.valid || value.negative) refuse("a whole number that is not negative");
  return value.bits;
}

int64_t GgufValue::as_signed() const {
  const Integer value = integer_of(type_, raw_);
  if (!value.valid || (!value.negative && value.bits >> 63 != 0)) refuse("a whole number of 63 bits");
  return static_cast<int64_t>(value.bits);
}

double GgufValue::as_number() const {
  if (type_ == GgufType::f32) return as<float>(raw_);
  if (type_ == GgufType::f64) return as<double>(raw_);
  const Integer value = integer_of(type_, raw_);
  if (!value.valid) refuse("a number");
  return value.negative ? static_cast<double>(static_cast<int64_t>(value.bits)) : static_cast<double>(value.bits);
}

bool GgufValue::as_bool() const {
  if (type_ != GgufType::boolean) refuse("a bool");
  return raw_[0] != 0;
}

std::string_view GgufValue::as_text() const {
  if (type_ != GgufType::text) refuse("a text");
  return {reinterpret_cast<const char*>(raw_.data()) + 8, raw_.size() - 8};
}

GgufType GgufValue::element_type() const {
  if (type_ != GgufType::array) refuse("an array");
  return static_cast<GgufType>(as<uint32_t>(raw_));
}

uint64_t GgufValue::size() const {
  if (type_ != GgufType::array) refuse("an array");
  return as<uint64_t>(raw_.subspan(4));
}

std::vector<GgufValue> GgufValue::elements() const {
  const GgufType type = element_type();
  std::vector<GgufValue> all;
  all.reserve(static_cast<size_t>(size()));
  for (std::span<const uint8_t> rest = raw_.subspan(12); !rest.empty();) {
    const auto bytes = static_cast<size_t>(gguf_value_bytes(type, rest));
    all.emplace_back(type, rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  return all;
}

std::vector<std::string_view> GgufValue::texts() const {
  if (type_ != GgufType::array || element_type() != GgufType::text) refuse("an array of texts");
  std::vector<std::string_view> all;
  for (const GgufValue& element : elements()) all.push_back(element.as_text());
  return all;
}

std::vector<double> GgufValue::numbers() const {
  std::vector<double> all;
  for (const GgufValue& element : elements()) all.push_back(element.as_number());
  return all;
}

std::vector<float> GgufTensor::dequantised() const {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  dequantise(type, bytes, values);
  return values;
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const GgufValue& Gguf::at(std::string_view key) const {
  const GgufValue* const found = find(key);
  if (found == nullptr) throw IoError(fmt::format("[gguf] {}: the metadata has no '{}'", path_, shortened(key)));
  return *found;
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Gguf Gguf::read(const std::string& path) { return of(FileBytes::read(path, "gguf"), path); }
Gguf Gguf::map(const std::string& path) { return of(FileBytes::map(path, "gguf"), path); }
Gguf Gguf::of(FileBytes file, const std::string& path) {
  Gguf result;
  result.path_ = path;
  result.file_ = std::make_shared<const FileBytes>(std::move(file));
  GgufReader(result).read();
  return result;
}

}  // namespace heddle
