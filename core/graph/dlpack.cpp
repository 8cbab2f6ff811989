#include "heddle/core/graph/dlpack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "heddle/core/base/host_array.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/device/adopted.h"
#include "heddle/core/graph/node.h"

namespace heddle {
namespace {

// The specification's layout on 64-bit machines.
static_assert(sizeof(DlTensor) == 48 && offsetof(DlTensor, ndim) == 16 && offsetof(DlTensor, dtype) == 20 &&
              offsetof(DlTensor, shape) == 24 && offsetof(DlTensor, byte_offset) == 40);
static_assert(sizeof(DlManagedTensor) == 64 && offsetof(DlManagedTensor, deleter) == 56);
static_assert(sizeof(DlManagedTensorVersioned) == 80 && offsetof(DlManagedTensorVersioned, flags) == 24 &&
              offsetof(DlManagedTensorVersioned, tensor) == 32);

constexpr uint32_t known_major = 1;
constexpr uint64_t alignment = 256;  // that the specification asks for

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

DType dtype_of_dl(const DlDataType& type) {
  if (type.lanes != 1)
    throw DTypeError(
        fmt::format("[from_dlpack] elements are vectors of {} lanes, expected single numbers", type.lanes));
  const auto row = std::find_if(type_codes.begin(), type_codes.end(),
                                [&](const TypeCode& t) { return t.code == type.code && t.bits == type.bits; });
  if (row == type_codes.end())
    throw DTypeError(fmt::format("[from_dlpack] elements are of type code {} with {} bits, which no dtype is",
                                 type.code, type.bits));
  return row->dtype;
}

[[noreturn]] void fail_shape(const char* what) { throw ShapeError(fmt::format("[from_dlpack] {}", what)); }

// Where the elements lie, from `data` and `byte_offset` on; strides may be negative.
View view_of(const DlTensor& tensor) {
  if (tensor.ndim < 0 || tensor.ndim > Shape::max_rank)
    throw ShapeError(
        fmt::format("[from_dlpack] {} dimensions, at most {} are supported", tensor.ndim, Shape::max_rank));
  if (tensor.ndim > 0 && tensor.shape == nullptr) fail_shape("there is no shape");
  const std::vector<int64_t> dims(tensor.shape, tensor.shape + tensor.ndim);
  int64_t numel = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) fail_shape("a dimension is negative");
    if (__builtin_mul_overflow(numel, std::max<int64_t>(dim, 1), &numel)) fail_shape("the dimensions overflow");
  }
  View view = View::dense(Shape(dims));
  if (tensor.strides == nullptr || view.shape.numel() == 0) return view;
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t reach = 0;
    view.strides[i] = dims[i] == 1 ? view.strides[i] : tensor.strides[i];
    if (__builtin_mul_overflow(dims[i] - 1, view.strides[i], &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
      fail_shape("the strides overflow");
  }
  constexpr int64_t most = int64_t{1} << 58;  // bytes of them still are a number
  if (low < -most || high > most) fail_shape("the strides overflow");
  return view;
}

const char* why_copied(const DlTensor& tensor, DType dtype, bool read_only, uint64_t numel, DeviceContext& device) {
  if (numel == 0) return "there are no elements";
  if (!has_host_memory(device)) return "the device's memory is not the host's";
  if (read_only) return "the memory is read-only";
  if (dtype == DType::boolean) return "bools are checked";
  const auto address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  return address % size_of(dtype) != 0 ? "the memory is not aligned to its elements" : nullptr;
}

Tensor copy_of(const uint8_t* first, const View& view, DType dtype, DeviceContext& device) {
  const auto numel = static_cast<size_t>(view.shape.numel());
  if (view.is_dense() && dtype != DType::boolean) return Tensor::from_bytes(first, numel, dtype, view.shape, &device);
  std::vector<uint8_t> bytes(numel * size_of(dtype));
  if (numel > 0) gather(first, view, 0, size_of(dtype), bytes.data());
  if (dtype == DType::boolean)
    std::transform(bytes.begin(), bytes.end(), bytes.begin(), [](uint8_t b) { return static_cast<uint8_t>(b != 0); });
  return Tensor::from_bytes(bytes.data(), numel, dtype, view.shape, &device);
}

template <class Managed>
void give_back(Managed* managed) {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <class Managed>
Tensor take(Managed* managed, bool read_only, DeviceContext* target, std::string* copied) {
  const DlTensor& tensor = managed->tensor;
  if (std::find(host_devices.begin(), host_devices.end(), tensor.device.type) == host_devices.end())
    throw ValueError(
        fmt::format("[from_dlpack] the memory is of a device of type {}, expected the CPU's (1); move it "
                    "there first",
                    tensor.device.type));
  const DType dtype = dtype_of_dl(tensor.dtype);
  const View view = view_of(tensor);
  const auto numel = static_cast<uint64_t>(view.shape.numel());
  if (numel > 0 && tensor.data == nullptr) throw ValueError("[from_dlpack] there is no memory");
  DeviceContext& device = target != nullptr ? *target : default_device();
  uint8_t* const first = static_cast<uint8_t*>(tensor.data) + (numel > 0 ? tensor.byte_offset : 0);
  const char* reason = why_copied(tensor, dtype, read_only, numel, device);
  if (reason == nullptr) {
    const auto [low, high] = view.extent();
    const auto width = static_cast<int64_t>(size_of(dtype));
    StoragePtr storage = adopt_memory(device, first + low * width, static_cast<uint64_t>((high - low + 1) * width),
                                      [managed] { give_back(managed); });
    View from_low = view;
    from_low.offset = -low;
    if (copied != nullptr && storage) copied->clear();
    if (storage) return Tensor(make_leaf(std::move(storage), from_low, dtype));
    reason = "the device takes no memory of this alignment or length";
  }
  Tensor copy = copy_of(first, view, dtype, device);
  give_back(managed);
  if (copied != nullptr) *copied = reason;
  return copy;
}

struct Free {
  void operator()(void* memory) const { os::free_aligned(memory); }
};

// What is handed out, and what it stands on.
template <class Managed>
struct Exported {
  Managed managed;
  std::array<int64_t, Shape::max_rank> shape{}, strides{};
  Tensor value;                           // whose memory it is
  std::unique_ptr<void, Free> own_bytes;  // or a copy
};

// The first element of a value that lies in the host's memory; null where it does not.
void* address_of(const Node& node) {
  if (!node.storage || node.shape.numel() == 0) return nullptr;
  auto* const first = static_cast<char*>(host_address(*node.storage));
  return first != nullptr ? first + node.view.offset * static_cast<int64_t>(size_of(node.dtype)) : nullptr;
}

template <class Managed>
std::unique_ptr<Exported<Managed>> exported(const Tensor& x, std::string* copied) {
  if (!x.defined()) throw ValueError("[to_dlpack] the tensor is not defined");
  eval({x});
  auto result = std::make_unique<Exported<Managed>>();
  DlTensor& tensor = result->managed.tensor;
  const Node& node = *x.node();
  View view = View::dense(x.shape());
  tensor.data = address_of(node);
  if (copied != nullptr) copied->clear();
  if (tensor.data != nullptr) {
    view.strides = node.view.strides;
    result->value = Tensor(make_leaf(node.storage, node.view, node.dtype));
  } else {
    const std::vector<uint8_t> bytes = x.to_bytes();
    result->own_bytes.reset(os::allocate_aligned(alignment, std::max<size_t>(bytes.size(), 1)));
    if (!result->own_bytes) throw OutOfMemory(fmt::format("[to_dlpack] no {} bytes of host memory", bytes.size()));
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(result->own_bytes.get()));
    tensor.data = result->own_bytes.get();
    if (copied != nullptr) *copied = "the value does not lie in the host's memory";
  }
  std::copy(view.shape.begin(), view.shape.end(), result->shape.begin());
  result->strides = view.strides;
  tensor.ndim = x.rank();
  tensor.shape = result->shape.data();
  tensor.strides = result->strides.data();
  const auto row =
      std::find_if(type_codes.begin(), type_codes.end(), [&](const TypeCode& t) { return t.dtype == x.dtype(); });
  tensor.dtype = {row->code, row->bits, 1};
  result->managed.context = result.get();
  result->managed.deleter = [](Managed* managed) { delete static_cast<Exported<Managed>*>(managed->context); };
  return result;
}

}  // namespace

Tensor from_dlpack(DlManagedTensorVersioned* tensor, DeviceContext* device, std::string* copied) {
  if (tensor == nullptr) throw ValueError("[from_dlpack] there is no tensor");
  if (tensor->version.major != known_major)
    throw ValueError(fmt::format("[from_dlpack] the tensor is of DLPack {}.{}, version {} is read",
                                 tensor->version.major, tensor->version.minor, known_major));
  return take(tensor, (tensor->flags & dl_read_only) != 0, device, copied);
}

Tensor from_dlpack(DlManagedTensor* tensor, DeviceContext* device, std::string* copied) {
  if (tensor == nullptr) throw ValueError("[from_dlpack] there is no tensor");
  return take(tensor, false, device, copied);
}

DlManagedTensorVersioned* to_dlpack(const Tensor& x, std::string* copied) {
  auto result = exported<DlManagedTensorVersioned>(x, copied);
  result->managed.flags = dl_read_only | (result->own_bytes ? dl_copied : 0);
  return &result.release()->managed;
}

DlManagedTensor* to_dlpack_unversioned(const Tensor& x, std::string* copied) {
  return &exported<DlManagedTensor>(x, copied).release()->managed;
}

}  // namespace heddle
