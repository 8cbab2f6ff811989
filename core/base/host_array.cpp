#include "heddle/core/base/host_array.h"

#include <cstring>

#include "heddle/core/base/view_walk.h"

namespace heddle {
namespace {

template <class T>
T load_as(const void* data, size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  return value;
}

int64_t load_integer(const void* data, DType t, size_t i) {
  switch (t) {
    case DType::i8:
      return load_as<int8_t>(data, i);
    case DType::u8:
      return load_as<uint8_t>(data, i);
    case DType::i32:
      return load_as<int32_t>(data, i);
    case DType::i64:
      return load_as<int64_t>(data, i);
    default:
      return load_as<uint8_t>(data, i) != 0;
  }
}

// Little-endian: the low bytes of the 64-bit value are the value of the narrower type.
void store_integer(void* data, DType t, size_t i, int64_t value) {
  if (t == DType::boolean) value = value != 0;
  std::memcpy(static_cast<char*>(data) + i * size_of(t), &value, size_of(t));
}

}  // namespace

void gather(const uint8_t* source, const View& view, int64_t base, size_t width, uint8_t* target) {
  walk(view, [&](int64_t at) {
    std::memcpy(target, source + (at - base) * static_cast<int64_t>(width), width);
    target += width;
  });
}

HostArray host_array_from_bytes(const void* data, const Shape& shape, DType dtype) {
  HostArray array{shape, dtype, {}, {}};
  const auto count = static_cast<size_t>(shape.numel());
  if (is_float(dtype)) {
    array.floats.resize(count);
    for (size_t i = 0; i < count; ++i) array.floats[i] = load_element(data, dtype, i);
  } else {
    array.ints.resize(count);
    for (size_t i = 0; i < count; ++i) array.ints[i] = load_integer(data, dtype, i);
  }
  return array;
}

std::vector<uint8_t> host_array_to_bytes(const HostArray& array) {
  const auto count = static_cast<size_t>(array.shape.numel());
  std::vector<uint8_t> bytes(count * size_of(array.dtype));
  for (size_t i = 0; i < count; ++i) {
    if (is_float(array.dtype)) {
      store_element(bytes.data(), array.dtype, i, array.floats[i]);
    } else {
      store_integer(bytes.data(), array.dtype, i, array.ints[i]);
    }
  }
  return bytes;
}

}  // namespace heddle
