// Element types of ONNX: their numbers in files, sizes, and the dtypes that hold them.
//
// Purpose: Heddle has no 16-bit integers and no unsigned ones of 32 and 64 bits; their values are held in the next
// wider signed dtype, u64 in the bits of i64. Types below 8 bits and floats of 8: narrow_types.h. Invariants: what a
// tensor of such a type holds is always in the type's range, as wrap() makes it after arithmetic. Errors: ValueError
// for a type that no tensor can have here. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "heddle/core/base/dtype.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::onnx {

// The numbers are those of TensorProto.DataType.
enum class Type : int32_t {
  none = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  text = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  c64 = 14,
  c128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  u2 = 25,
  i2 = 26,
};

// "float", "uint16", as ONNX's own names; "type 24" for numbers that are not above.
std::string name_of(Type type);
// Whether tensors of it can be held: all but texts, complex numbers and what is not above.
bool is_held(Type type);
bool is_float(Type type);
bool is_unsigned(Type type);
// Bytes of an element in a HostTensor, and in a file unless it packs them (narrow_types.h); 0 for what is not held.
size_t size_of(Type type);
// What holds it. ValueError unless is_held().
DType storage(Type type);
// The type that a tensor of this dtype has where nothing else is known.
Type type_of(DType dtype);
// The range of an integer type; of u64 as the bits of i64.
int64_t lowest(Type type);
int64_t highest(Type type);
// Whole numbers of any size, brought into the range modulo 2^bits; x itself where the storage wraps by itself.
Tensor wrap(const Tensor& x, Type type);
int64_t wrap(int64_t x, Type type);

}  // namespace heddle::onnx
