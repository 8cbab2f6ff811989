#include "heddle/core/graph/dlpack.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "heddle/core/device/adopted.h"
#include "heddle/core/device/validate.h"
#include "heddle/core/graph/node.h"

namespace heddle {
namespace {

const char* why_copied(const DlArray& array, DeviceContext& device) {
  if (array.numel() == 0) return "there are no elements";
  if (!has_host_memory(device)) return "the device's memory is not the host's";
  if (array.read_only) return "the memory is read-only";
  if (array.dtype == DType::boolean) return "bools are checked";
  return array.is_aligned() ? nullptr : "the memory is not aligned to its elements";
}

// The caller's from here on, with the reason; an array without elements needs no copy of anything.
void say_copied(const char* place, const char* reason, uint64_t numel, DlCopy copy, std::string* copied) {
  if (copy == DlCopy::refused && numel > 0) throw CopyNeeded(fmt::format("[{}] this needs a copy: {}", place, reason));
  if (copied != nullptr) *copied = reason;
}

Tensor copy_of(const DlArray& array, DeviceContext& device) {
  const auto numel = static_cast<size_t>(array.numel());
  if (array.view.is_dense() && array.dtype != DType::boolean && array.is_aligned())
    return Tensor::from_bytes(array.first, numel, array.dtype, array.view.shape, &device);
  // Strides of 0 make any number of elements of a few bytes.
  if (numel > 0) check_allocation(numel * size_of(array.dtype), device.caps());
  const std::vector<uint8_t> bytes = dense_values(array);
  return Tensor::from_bytes(bytes.data(), numel, array.dtype, array.view.shape, &device);
}

template <class Managed>
Tensor take(Managed* managed, DeviceContext* target, std::string* copied, DlCopy copy) {
  const DlArray array = read_dlpack(managed, "from_dlpack");
  DeviceContext& device = target != nullptr ? *target : default_device();
  const char* reason = why_copied(array, device);
  if (reason == nullptr) {
    Adopted adopted =
        adopt_memory(device, array.lowest(), array.span_bytes(), HostUse::write, [managed] { give_back(managed); });
    const auto width = static_cast<uint64_t>(size_of(array.dtype));
    if (adopted.storage) {
      View view = array.view;
      view.offset = static_cast<int64_t>(adopted.skip / width) - view.extent().first;
      if (copied != nullptr) copied->clear();
      return Tensor(make_leaf(std::move(adopted.storage), view, array.dtype));
    }
    reason = "the device takes no memory there";
  }
  say_copied("from_dlpack", reason, array.numel(), copy, copied);
  Tensor result = copy_of(array, device);
  give_back(managed);
  return result;
}

// The first element of a value that lies in the host's memory; null where it does not.
void* address_of(const Node& node) {
  if (!node.storage || node.shape.numel() == 0) return nullptr;
  auto* const first = static_cast<char*>(host_address(*node.storage));
  return first != nullptr ? first + node.view.offset * static_cast<int64_t>(size_of(node.dtype)) : nullptr;
}

template <class Managed>
Managed* exported(const Tensor& x, std::string* copied, DlCopy copy) {
  if (!x.defined()) throw ValueError("[to_dlpack] the tensor is not defined");
  eval({x});
  const Node& node = *x.node();
  if (void* const first = address_of(node)) {
    if (copied != nullptr) copied->clear();
    return hand_out<Managed>({first, node.view, node.dtype, node.storage});
  }
  const auto numel = static_cast<uint64_t>(x.numel());
  say_copied("to_dlpack", numel == 0 ? "there are no elements" : "the value does not lie in the host's memory", numel,
             copy, copied);
  const std::vector<uint8_t> bytes = x.to_bytes();
  const std::shared_ptr<void> memory = dlpack_memory(bytes.size(), "to_dlpack");
  std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(memory.get()));
  return hand_out<Managed>({memory.get(), View::dense(x.shape()), x.dtype(), memory, dl_read_only | dl_copied});
}

}  // namespace

Tensor from_dlpack(DlManagedTensorVersioned* tensor, DeviceContext* device, std::string* copied, DlCopy copy) {
  return take(tensor, device, copied, copy);
}
Tensor from_dlpack(DlManagedTensor* tensor, DeviceContext* device, std::string* copied, DlCopy copy) {
  return take(tensor, device, copied, copy);
}

DlManagedTensorVersioned* to_dlpack(const Tensor& x, std::string* copied, DlCopy copy) {
  return exported<DlManagedTensorVersioned>(x, copied, copy);
}
DlManagedTensor* to_dlpack_unversioned(const Tensor& x, std::string* copied, DlCopy copy) {
  return exported<DlManagedTensor>(x, copied, copy);
}

}  // namespace heddle
