#include "heddle/core/base/dlpack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/core/base/host_array.h"
#include "heddle/core/base/system/machine.h"

namespace heddle {
namespace {

// The specification's layout on 64-bit machines.
static_assert(sizeof(DlTensor) == 48 && offsetof(DlTensor, ndim) == 16 && offsetof(DlTensor, dtype) == 20 &&
              offsetof(DlTensor, shape) == 24 && offsetof(DlTensor, byte_offset) == 40);
static_assert(sizeof(DlManagedTensor) == 64 && offsetof(DlManagedTensor, deleter) == 56);
static_assert(sizeof(DlManagedTensorVersioned) == 80 && offsetof(DlManagedTensorVersioned, flags) == 24 &&
              offsetof(DlManagedTensorVersioned, tensor) == 32);

constexpr uint32_t known_major = 1;

struct TypeCode {
  DType dtype;
  uint8_t code, bits;
};
constexpr std::array<TypeCode, dtype_count> type_codes = {{{DType::f32, 2, 32},
                                                           {DType::f16, 2, 16},
                                                           {DType::bf16, 4, 16},
                                                           {DType::f64, 2, 64},
                                                           {DType::i8, 0, 8},
                                                           {DType::u8, 1, 8},
                                                           {DType::i32, 0, 32},
                                                           {DType::i64, 0, 64},
                                                           {DType::boolean, 6, 8}}};

// CPU, and memory of the host that CUDA and ROCm have pinned.
constexpr std::array<int32_t, 3> host_devices = {1, 3, 11};

DType dtype_of_dl(const DlDataType& type, const char* place) {
  if (type.lanes != 1)
    throw DTypeError(fmt::format("[{}] elements are vectors of {} lanes, expected single numbers", place, type.lanes));
  const auto row = std::find_if(type_codes.begin(), type_codes.end(),
                                [&](const TypeCode& t) { return t.code == type.code && t.bits == type.bits; });
  if (row == type_codes.end())
    throw DTypeError(
        fmt::format("[{}] elements are of type code {} with {} bits, which no dtype is", place, type.code, type.bits));
  return row->dtype;
}

[[noreturn]] void fail_shape(const char* place, const char* what) {
  throw ShapeError(fmt::format("[{}] {}", place, what));
}

constexpr int64_t most_elements = int64_t{1} << 58;  // bytes of them still are a number

View view_of(const DlTensor& tensor, const char* place) {
  if (tensor.ndim < 0 || tensor.ndim > Shape::max_rank)
    throw ShapeError(
        fmt::format("[{}] {} dimensions, at most {} are supported", place, tensor.ndim, int{Shape::max_rank}));
  if (tensor.ndim > 0 && tensor.shape == nullptr) fail_shape(place, "there is no shape");
  const std::vector<int64_t> dims(tensor.shape, tensor.shape + tensor.ndim);
  int64_t numel = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) fail_shape(place, "a dimension is negative");
    if (__builtin_mul_overflow(numel, std::max<int64_t>(dim, 1), &numel) || numel > most_elements)
      fail_shape(place, "the dimensions overflow");
  }
  View view = View::dense(Shape(dims));
  if (view.shape.numel() == 0) return view;
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t reach = 0;
    if (tensor.strides != nullptr && dims[i] != 1) view.strides[i] = tensor.strides[i];
    if (__builtin_mul_overflow(dims[i] - 1, view.strides[i], &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
      fail_shape(place, "the strides overflow");
  }
  if (low < -most_elements || high > most_elements) fail_shape(place, "the strides overflow");
  return view;
}

// That all elements lie at addresses of a program, which are below the half of all: sums that overflow are of no array.
void check_addresses(const DlTensor& tensor, const View& view, uint64_t size, const char* place) {
  const auto [low, high] = view.extent();
  uintptr_t first = 0, end = 0;
  if (__builtin_add_overflow(reinterpret_cast<uintptr_t>(tensor.data), tensor.byte_offset, &first) ||
      static_cast<uint64_t>(-low) * size > first ||
      __builtin_add_overflow(first, static_cast<uint64_t>(high + 1) * size, &end) || end > UINTPTR_MAX / 2)
    throw ValueError(fmt::format("[{}] the elements lie at no addresses: byte offset {}", place, tensor.byte_offset));
}

DlArray read(const DlTensor& tensor, bool read_only, const char* place) {
  if (std::find(host_devices.begin(), host_devices.end(), tensor.device.type) == host_devices.end())
    throw ValueError(
        fmt::format("[{}] the memory is of a device of type {}, expected the CPU's (1); move it there first", place,
                    tensor.device.type));
  DlArray array{dtype_of_dl(tensor.dtype, place), view_of(tensor, place), nullptr, read_only};
  if (array.numel() == 0) return array;
  if (tensor.data == nullptr) throw ValueError(fmt::format("[{}] there is no memory", place));
  check_addresses(tensor, array.view, size_of(array.dtype), place);
  array.first = static_cast<uint8_t*>(tensor.data) + tensor.byte_offset;
  return array;
}

void check_pointer(const void* tensor, const char* place) {
  if (tensor == nullptr) throw ValueError(fmt::format("[{}] there is no tensor", place));
}

// What is handed out, as the one or the other struct, and what it stands on.
struct Exported {
  DlManagedTensorVersioned versioned;
  DlManagedTensor old;
  HandedArray array;
  std::array<int64_t, Shape::max_rank> shape{};
};

Exported* exported(HandedArray array) {
  auto* const result = new Exported{{}, {}, std::move(array)};
  const View& view = result->array.view;
  std::copy(view.shape.begin(), view.shape.end(), result->shape.begin());
  DlTensor& tensor = result->versioned.tensor;
  tensor.data = result->array.first;
  tensor.ndim = view.shape.rank();
  tensor.shape = result->shape.data();
  tensor.strides = result->array.view.strides.data();
  const auto row = std::find_if(type_codes.begin(), type_codes.end(),
                                [&](const TypeCode& t) { return t.dtype == result->array.dtype; });
  tensor.dtype = {row->code, row->bits, 1};
  result->old.tensor = tensor;
  result->versioned.flags = result->array.flags;
  result->versioned.context = result->old.context = result;
  result->versioned.deleter = [](DlManagedTensorVersioned* made) { delete static_cast<Exported*>(made->context); };
  result->old.deleter = [](DlManagedTensor* made) { delete static_cast<Exported*>(made->context); };
  return result;
}

struct Free {
  void operator()(void* memory) const { os::free_aligned(memory); }
};

}  // namespace

uint64_t DlArray::span_bytes() const {
  const auto [low, high] = view.extent();
  return static_cast<uint64_t>(high - low + 1) * size_of(dtype);
}

DlArray read_dlpack(const DlManagedTensorVersioned* tensor, const char* place) {
  check_pointer(tensor, place);
  if (tensor->version.major != known_major)
    throw ValueError(fmt::format("[{}] the tensor is of DLPack {}.{}, version {} is read", place, tensor->version.major,
                                 tensor->version.minor, known_major));
  return read(tensor->tensor, (tensor->flags & dl_read_only) != 0, place);
}

DlArray read_dlpack(const DlManagedTensor* tensor, const char* place) {
  check_pointer(tensor, place);
  return read(tensor->tensor, false, place);
}

std::vector<uint8_t> dense_values(const DlArray& array) {
  std::vector<uint8_t> bytes(array.numel() * size_of(array.dtype));
  if (array.numel() > 0) gather(array.first, array.view, 0, size_of(array.dtype), bytes.data());
  if (array.dtype == DType::boolean)
    std::transform(bytes.begin(), bytes.end(), bytes.begin(), [](uint8_t b) { return static_cast<uint8_t>(b != 0); });
  return bytes;
}

void give_back(DlManagedTensorVersioned* tensor) {
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}
void give_back(DlManagedTensor* tensor) {
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

template <>
DlManagedTensorVersioned* hand_out(HandedArray array) {
  return &exported(std::move(array))->versioned;
}
template <>
DlManagedTensor* hand_out(HandedArray array) {
  return &exported(std::move(array))->old;
}

std::shared_ptr<void> dlpack_memory(uint64_t bytes, const char* place) {
  void* const memory = os::allocate_aligned(dl_alignment, std::max<uint64_t>(bytes, 1));
  if (memory == nullptr) throw OutOfMemory(fmt::format("[{}] no {} bytes of host memory", place, bytes));
  return {memory, Free()};
}

}  // namespace heddle
