#include "heddle/core/base/dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "heddle/core/base/error.h"

namespace heddle {
namespace {

constexpr std::array<std::string_view, dtype_count> dtype_names = {"f32", "f16", "bf16", "f64", "i8",
                                                                   "u8",  "i32", "i64",  "bool"};
constexpr std::array<size_t, dtype_count> sizes = {4, 2, 2, 8, 1, 1, 4, 8, 1};

// Truncates toward zero and wraps modulo 2^64; NaN and infinities give 0. A plain conversion would be undefined
// behaviour outside the range of int64.
uint64_t truncate_to_bits(double value) {
  if (!std::isfinite(value)) return 0;
  const double whole = std::trunc(value);
  if (std::fabs(whole) < 0x1p63) return static_cast<uint64_t>(static_cast<int64_t>(whole));
  const double wrapped = std::fmod(std::fabs(whole), 0x1p64);
  const auto bits = static_cast<uint64_t>(wrapped);
  return whole < 0 ? uint64_t{0} - bits : bits;
}

template <class T>
T read_as(const void* data, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void write_as(void* data, size_t i, T value) {
  std::memcpy(static_cast<char*>(data) + i * sizeof(T), &value, sizeof(T));
}

}  // namespace

size_t size_of(DType t) { return sizes[static_cast<size_t>(t)]; }
std::string_view name_of(DType t) { return dtype_names[static_cast<size_t>(t)]; }

DType parse_dtype(std::string_view name) {
  for (size_t i = 0; i < dtype_names.size(); ++i) {
    if (dtype_names[i] == name) return static_cast<DType>(i);
  }
  throw ValueError(fmt::format("[dtype] unknown dtype '{}'; known: {}", name, fmt::join(dtype_names, ", ")));
}

bool is_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16 || t == DType::f64; }
bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }
bool is_integer(DType t) { return t == DType::i8 || t == DType::u8 || t == DType::i32 || t == DType::i64; }

DType arith(DType t) {
  switch (t) {
    case DType::f16:
    case DType::bf16:
      return DType::f32;
    case DType::i8:
    case DType::u8:
      return DType::i32;
    default:
      return t;
  }
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (is_float(a) && is_float(b)) {
    // Different widths: the wider; f16 beside bf16 have no common 16-bit type.
    if (size_of(a) == size_of(b)) return DType::f32;
    return size_of(a) > size_of(b) ? a : b;
  }
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  if (size_of(a) == size_of(b)) return DType::i32;  // u8 with i8
  return size_of(a) > size_of(b) ? a : b;
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: keep the high payload bits, and keep it a NaN
    const uint32_t payload = (magnitude >> 13) & 0x3ffu;
    return static_cast<uint16_t>(sign | 0x7c00u | (payload ? payload : 0x200u));
  }
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65536 and above
  if (magnitude < 0x38800000u) {
    // Below 2^-14: the spacing is 2^-24, so the sum with 0.5 rounds to it (ulp of [0.5, 1) is 2^-24), ties to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  // The carry of the rounding runs into the exponent, up to infinity: as it should.
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    const auto high = static_cast<uint16_t>(bits >> 16);
    return (high & 0x7fu) ? high : static_cast<uint16_t>(high | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

double load_element(const void* data, DType t, size_t i) {
  switch (t) {
    case DType::f32:
      return read_as<float>(data, i);
    case DType::f16:
      return f16_to_f32(read_as<uint16_t>(data, i));
    case DType::bf16:
      return bf16_to_f32(read_as<uint16_t>(data, i));
    case DType::f64:
      return read_as<double>(data, i);
    case DType::i8:
      return read_as<int8_t>(data, i);
    case DType::u8:
      return read_as<uint8_t>(data, i);
    case DType::i32:
      return read_as<int32_t>(data, i);
    case DType::i64:
      return static_cast<double>(read_as<int64_t>(data, i));
    case DType::boolean:
      return read_as<uint8_t>(data, i) != 0 ? 1.0 : 0.0;
  }
  return 0;
}

void store_element(void* data, DType t, size_t i, double value) {
  const uint64_t bits = is_integer(t) ? truncate_to_bits(value) : 0;
  switch (t) {
    case DType::f32:
      return write_as(data, i, static_cast<float>(value));
    case DType::f16:
      return write_as(data, i, f32_to_f16(static_cast<float>(value)));
    case DType::bf16:
      return write_as(data, i, f32_to_bf16(static_cast<float>(value)));
    case DType::f64:
      return write_as(data, i, value);
    case DType::i8:
    case DType::u8:
      return write_as(data, i, static_cast<uint8_t>(bits));
    case DType::i32:
      return write_as(data, i, static_cast<uint32_t>(bits));
    case DType::i64:
      return write_as(data, i, bits);
    case DType::boolean:
      return write_as(data, i, static_cast<uint8_t>(value != 0));
  }
}

double rounded(double value, DType t) {
  uint64_t bits = 0;
  store_element(&bits, t, 0, value);
  return load_element(&bits, t, 0);
}

}  // namespace heddle
