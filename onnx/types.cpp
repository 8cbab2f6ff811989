#include "heddle/onnx/types.h"

#include <fmt/format.h>

#include <limits>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/math/elementwise.h"

namespace heddle::onnx {
namespace {

struct Row {
  const char* name;
  size_t bytes;
  DType storage;
  Type type;
};

constexpr Row rows[] = {
    {"float", 4, DType::f32, Type::f32},
    {"uint8", 1, DType::u8, Type::u8},
    {"int8", 1, DType::i8, Type::i8},
    {"uint16", 2, DType::i32, Type::u16},
    {"int16", 2, DType::i32, Type::i16},
    {"int32", 4, DType::i32, Type::i32},
    {"int64", 8, DType::i64, Type::i64},
    {"bool", 1, DType::boolean, Type::boolean},
    {"float16", 2, DType::f16, Type::f16},
    {"double", 8, DType::f64, Type::f64},
    {"uint32", 4, DType::i64, Type::u32},
    {"uint64", 8, DType::i64, Type::u64},
    {"bfloat16", 2, DType::bf16, Type::bf16},
    {"float8e4m3fn", 1, DType::f32, Type::f8e4m3fn},
    {"float8e4m3fnuz", 1, DType::f32, Type::f8e4m3fnuz},
    {"float8e5m2", 1, DType::f32, Type::f8e5m2},
    {"float8e5m2fnuz", 1, DType::f32, Type::f8e5m2fnuz},
    {"uint4", 1, DType::u8, Type::u4},
    {"int4", 1, DType::i8, Type::i4},
    {"float4e2m1", 1, DType::f32, Type::f4e2m1},
    {"uint2", 1, DType::u8, Type::u2},
    {"int2", 1, DType::i8, Type::i2},
};

const Row* row_of(Type type) {
  for (const Row& row : rows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

std::string name_of(Type type) {
  if (const Row* row = row_of(type)) return row->name;
  if (type == Type::none) return "no type";
  if (type == Type::text) return "string";
  if (type == Type::c64) return "complex64";
  if (type == Type::c128) return "complex128";
  return fmt::format("type {}", static_cast<int>(type));
}

bool is_held(Type type) { return row_of(type) != nullptr; }
bool is_float(Type type) { return is_held(type) && heddle::is_float(storage(type)); }
bool is_unsigned(Type type) {
  return type == Type::u2 || type == Type::u4 || type == Type::u8 || type == Type::u16 || type == Type::u32 ||
         type == Type::u64;
}

size_t size_of(Type type) {
  const Row* row = row_of(type);
  return row ? row->bytes : 0;
}

DType storage(Type type) {
  if (const Row* row = row_of(type)) return row->storage;
  throw ValueError(fmt::format("[onnx] tensors of {} cannot be held", name_of(type)));
}

Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Type::f32;
    case DType::f16:
      return Type::f16;
    case DType::bf16:
      return Type::bf16;
    case DType::f64:
      return Type::f64;
    case DType::i8:
      return Type::i8;
    case DType::u8:
      return Type::u8;
    case DType::i32:
      return Type::i32;
    case DType::i64:
      return Type::i64;
    case DType::boolean:
      return Type::boolean;
  }
  return Type::none;
}

int64_t lowest(Type type) {
  switch (type) {
    case Type::i2:
      return -2;
    case Type::i4:
      return -8;
    case Type::i8:
      return std::numeric_limits<int8_t>::min();
    case Type::i16:
      return std::numeric_limits<int16_t>::min();
    case Type::i32:
      return std::numeric_limits<int32_t>::min();
    case Type::i64:
      return std::numeric_limits<int64_t>::min();
    default:
      return 0;
  }
}

int64_t highest(Type type) {
  switch (type) {
    case Type::i2:
      return 1;
    case Type::u2:
      return 3;
    case Type::i4:
      return 7;
    case Type::u4:
      return 15;
    case Type::i8:
      return std::numeric_limits<int8_t>::max();
    case Type::i16:
      return std::numeric_limits<int16_t>::max();
    case Type::i32:
      return std::numeric_limits<int32_t>::max();
    case Type::u8:
      return std::numeric_limits<uint8_t>::max();
    case Type::u16:
      return std::numeric_limits<uint16_t>::max();
    case Type::u32:
      return std::numeric_limits<uint32_t>::max();
    case Type::u64:
      return -1;
    case Type::boolean:
      return 1;
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

Tensor wrap(const Tensor& x, Type type) {
  switch (type) {
    case Type::u2:
      return bitwise_and(x, 3.0);
    case Type::i2:
      return bitwise_and(x + 2.0, 3.0) - 2.0;
    case Type::u4:
      return bitwise_and(x, 15.0);
    case Type::i4:
      return bitwise_and(x + 8.0, 15.0) - 8.0;
    case Type::u16:
      return bitwise_and(x, 65535.0);
    case Type::i16:
      return bitwise_and(x + 32768.0, 65535.0) - 32768.0;
    case Type::u32:
      return bitwise_and(x, 4294967295.0);
    default:
      return x;
  }
}

int64_t wrap(int64_t x, Type type) {
  switch (type) {
    case Type::u2:
      return x & 3;
    case Type::i2:
      return (x & 3) - (x & 2) * 2;
    case Type::u4:
      return x & 15;
    case Type::i4:
      return (x & 15) - (x & 8) * 2;
    case Type::u8:
      return static_cast<uint8_t>(x);
    case Type::i8:
      return static_cast<int8_t>(x);
    case Type::u16:
      return static_cast<uint16_t>(x);
    case Type::i16:
      return static_cast<int16_t>(x);
    case Type::i32:
      return static_cast<int32_t>(x);
    case Type::u32:
      return static_cast<uint32_t>(x);
    case Type::boolean:
      return x != 0;
    default:
      return x;
  }
}

}  // namespace heddle::onnx
