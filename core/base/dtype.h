// Element types, their sizes, names and promotion.
//
// Purpose: one list of element types for tensors, kernels and files.
// Invariants: `bool` is stored as one byte that is 0 or 1; f16 and bf16 are storage types whose arithmetic is
// done in f32; every dtype has an arithmetic type (`arith`) in which kernels compute.
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heddle {

enum class DType : uint8_t { f32, f16, bf16, f64, i8, u8, i32, i64, boolean };
inline constexpr int dtype_count = 9;

// Bytes of one element as stored.
size_t size_of(DType t);
// "f32", "bf16", "bool", ...
std::string_view name_of(DType t);
// Inverse of name_of; throws ValueError that lists the known names.
DType parse_dtype(std::string_view name);

bool is_float(DType t);    // f32, f16, bf16, f64
bool is_half(DType t);     // f16, bf16
bool is_integer(DType t);  // i8, u8, i32, i64 (not bool)

// The type in which a kernel computes on elements of `t`: f16, bf16 -> f32; i8, u8 -> i32; others themselves.
DType arith(DType t);

// Result type of a binary operation between two tensors. Follows PyTorch's table: any float beats any integer,
// the wider float wins, f16 with bf16 gives f32, u8 with i8 gives i32 (PyTorch: int16, which Heddle lacks),
// bool yields to everything.
DType promote(DType a, DType b);

// IEEE binary16 and bfloat16 <-> float, round to nearest even; NaN stays NaN.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);

// Reads or writes element `i` of a host array of dtype `t` as a double. Integers up to 2^53 are exact; a store to
// an integer type truncates toward zero and wraps; a store to bool gives value != 0.
double load_element(const void* data, DType t, size_t i);
void store_element(void* data, DType t, size_t i, double value);
// `value` as an element of dtype `t` holds it: what a store and a load give.
double rounded(double value, DType t);

// C++ element type -> DType; specialised for the host types a user can pass (float, double, int8_t, uint8_t,
// int32_t, int64_t, bool).
template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct dtype_of<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct dtype_of<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct dtype_of<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct dtype_of<bool> {
  static constexpr DType value = DType::boolean;
};

}  // namespace heddle
