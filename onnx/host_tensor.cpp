#include "heddle/onnx/host_tensor.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "heddle/core/functions/shape/create.h"
#include "heddle/onnx/narrow_types.h"

namespace heddle::onnx {
namespace {

template <class T>
T read(const std::string& bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void write(std::string& bytes, size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

int64_t whole_at(const std::string& bytes, Type type, size_t i) {
  switch (type) {
    case Type::u2:
    case Type::u4:
    case Type::u8:
      return read<uint8_t>(bytes, i);
    case Type::i2:
    case Type::i4:
    case Type::i8:
      return read<int8_t>(bytes, i);
    case Type::boolean:
      return read<uint8_t>(bytes, i) != 0;
    case Type::u16:
      return read<uint16_t>(bytes, i);
    case Type::i16:
      return read<int16_t>(bytes, i);
    case Type::i32:
      return read<int32_t>(bytes, i);
    case Type::u32:
      return read<uint32_t>(bytes, i);
    default:
      return read<int64_t>(bytes, i);
  }
}

double real_at(const std::string& bytes, Type type, size_t i) {
  if (is_narrow_float(type)) return narrow_value(type, read<uint8_t>(bytes, i));
  switch (type) {
    case Type::f32:
      return static_cast<double>(read<float>(bytes, i));
    case Type::f64:
      return read<double>(bytes, i);
    case Type::f16:
      return static_cast<double>(f16_to_f32(read<uint16_t>(bytes, i)));
    case Type::bf16:
      return static_cast<double>(bf16_to_f32(read<uint16_t>(bytes, i)));
    case Type::u64:
      return static_cast<double>(read<uint64_t>(bytes, i));
    default:
      return static_cast<double>(whole_at(bytes, type, i));
  }
}

int64_t truncated(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 9223372036854775808.0) return std::numeric_limits<int64_t>::max();
  if (x < -9223372036854775808.0) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

void write_whole(std::string& bytes, Type type, size_t i, int64_t value) {
  switch (size_of(type)) {
    case 1:
      return write(bytes, i, static_cast<uint8_t>(type == Type::boolean ? value != 0 : wrap(value, type)));
    case 2:
      return write(bytes, i, static_cast<uint16_t>(value));
    case 4:
      return write(bytes, i, static_cast<uint32_t>(value));
    default:
      return write(bytes, i, value);
  }
}

size_t count(const Shape& shape) { return static_cast<size_t>(shape.numel()); }

HostTensor empty_of(Type type, const Shape& shape, std::string bytes) {
  return {type, shape, std::make_shared<const std::string>(std::move(bytes))};
}

}  // namespace

HostTensor HostTensor::of_ints(Type type, const Shape& shape, const std::vector<int64_t>& values) {
  if (onnx::is_float(type)) return of_reals(type, shape, std::vector<double>(values.begin(), values.end()));
  std::string bytes(count(shape) * onnx::size_of(type), '\0');
  for (size_t i = 0; i < values.size(); ++i) write_whole(bytes, type, i, values[i]);
  return empty_of(type, shape, std::move(bytes));
}

HostTensor HostTensor::of_reals(Type type, const Shape& shape, const std::vector<double>& values) {
  std::string bytes(count(shape) * onnx::size_of(type), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == Type::f32)
      write(bytes, i, static_cast<float>(values[i]));
    else if (type == Type::f64)
      write(bytes, i, values[i]);
    else if (type == Type::f16)
      write(bytes, i, f32_to_f16(static_cast<float>(values[i])));
    else if (type == Type::bf16)
      write(bytes, i, f32_to_bf16(static_cast<float>(values[i])));
    else if (is_narrow_float(type))
      write(bytes, i, narrow_bits(type, values[i]));
    else if (type == Type::boolean)
      write(bytes, i, static_cast<uint8_t>(values[i] != 0));
    else
      write_whole(bytes, type, i, truncated(values[i]));
  }
  return empty_of(type, shape, std::move(bytes));
}

std::vector<int64_t> HostTensor::ints() const {
  std::vector<int64_t> values(count(shape));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = onnx::is_float(type) ? truncated(real_at(*bytes, type, i)) : whole_at(*bytes, type, i);
  return values;
}

std::vector<double> HostTensor::reals() const {
  std::vector<double> values(count(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = real_at(*bytes, type, i);
  return values;
}

std::string HostTensor::stored() const {
  const DType dtype = storage(type);
  if (onnx::size_of(type) == heddle::size_of(dtype)) return *bytes;
  std::string wide(count(shape) * heddle::size_of(dtype), '\0');
  for (size_t i = 0; i < count(shape); ++i) {
    if (dtype == DType::f32)
      write(wide, i, static_cast<float>(real_at(*bytes, type, i)));
    else if (dtype == DType::i32)
      write(wide, i, static_cast<int32_t>(whole_at(*bytes, type, i)));
    else
      write(wide, i, whole_at(*bytes, type, i));
  }
  return wide;
}

HostTensor HostTensor::from_stored(Type type, const Shape& shape, const std::vector<uint8_t>& stored) {
  const DType dtype = storage(type);
  std::string bytes(stored.begin(), stored.end());
  if (onnx::size_of(type) == heddle::size_of(dtype)) return empty_of(type, shape, std::move(bytes));
  if (dtype == DType::f32) return of_reals(type, shape, empty_of(Type::f32, shape, std::move(bytes)).reals());
  const HostTensor wide = empty_of(dtype == DType::i32 ? Type::i32 : Type::i64, shape, std::move(bytes));
  return of_ints(type, shape, wide.ints());
}

bool HostTensor::uniform() const {
  const size_t width = onnx::size_of(type), elements = count(shape);
  for (size_t i = 1; i < elements; ++i) {
    if (std::memcmp(bytes->data(), bytes->data() + i * width, width) != 0) return false;
  }
  if (elements == 0) return false;
  const double first = real_at(*bytes, type, 0);
  return std::abs(first) < 9007199254740992.0 && !(first == 0 && std::signbit(first));
}

Tensor HostTensor::upload(DeviceContext& device) const {
  const DType dtype = storage(type);
  if (uniform()) return full(shape, real_at(*bytes, type, 0), dtype, &device);
  const std::string data = stored();
  return Tensor::from_bytes(data.data(), count(shape), dtype, shape, &device);
}

}  // namespace heddle::onnx
