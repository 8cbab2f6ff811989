#include "heddle/runtime/shared_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "heddle/core/device/adopted.h"
#include "heddle/core/device/storage.h"

namespace heddle {

void GiveBack::operator()() const {
  if (tensor == nullptr) return;
  versioned ? heddle::give_back(static_cast<DlManagedTensorVersioned*>(tensor))
            : heddle::give_back(static_cast<DlManagedTensor*>(tensor));
}

OfferedArray::OfferedArray(void* tensor, bool versioned, const char* place)
    : array(versioned ? read_dlpack(static_cast<DlManagedTensorVersioned*>(tensor), place)
                      : read_dlpack(static_cast<DlManagedTensor*>(tensor), place)),
      give_back{tensor, versioned} {}

void check_fits(const ModelImage::Port& port, const DlArray& array, const char* place) {
  const Shape& shape = array.view.shape;
  const bool shaped = std::equal(port.shape.begin(), port.shape.end(), shape.begin(), shape.end());
  if (shaped && array.dtype == port.dtype) return;
  const std::string text = fmt::format("[{}] {} is {} {}, the tensor {} {}", place, port.name, name_of(port.dtype),
                                       Shape(port.shape).str(), name_of(array.dtype), shape.str());
  if (shaped) throw DTypeError(text);
  throw ShapeError(text);
}

const char* why_not_shared(const DlArray& array, DeviceContext& device) {
  if (array.numel() == 0) return "there are no elements";
  if (!has_host_memory(device)) return "the device's memory is not the host's";
  if (!array.view.is_dense()) return "the elements are not dense";
  return array.is_aligned() ? nullptr : "the elements are not aligned";
}

void check_copy(const char* reason, DlCopy copy, const char* place) {
  if (copy == DlCopy::refused) throw CopyNeeded(fmt::format("[{}] this needs a copy: {}", place, reason));
}

SharedArray::SharedArray(DeviceContext& device, const DlArray& array, HostUse use)
    : taken_(std::make_shared<GiveBack>()), first_(array.first), bytes_(array.span_bytes()) {
  Adopted adopted = adopt_memory(device, array.first, bytes_, use, [taken = taken_] { (*taken)(); });
  if (adopted.skip == 0) storage_ = std::move(adopted.storage);
}

void SharedArray::take(const GiveBack& give_back) {
  // Memory that is offered again under another tensor: the earlier one has done its part.
  const GiveBack earlier = std::exchange(*taken_, give_back);
  earlier();
}

bool SharedArray::overlaps(const DlArray& array) const {
  return storage_ != nullptr && array.first != nullptr && array.first < first_ + bytes_ &&
         first_ < array.first + array.span_bytes();
}

}  // namespace heddle
