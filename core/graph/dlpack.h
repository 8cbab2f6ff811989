// DLPack: arrays of other libraries as Tensors, and Tensors as arrays of theirs, without a copy where the memory is the
// same.
//
// Method: the structs are those of the DLPack specification (0.8 and 1.0), defined here: a pointer to them may be cast
// from and to that of the specification's own header. Invariants: a tensor that was taken is given back by its deleter
// once, when no Tensor uses it any more; one that was refused (an exception) stays the caller's. What is handed out
// holds its memory until its deleter is called, from any thread, and is for reading: it is flagged so. A value that
// shares memory is what that memory holds: who writes there changes it, and assign() to a Tensor over memory of others
// may write there; read-only memory is copied. There is a copy where the device's memory is not the host's, and the
// reason is said. Errors: ValueError, DTypeError or ShapeError "[from_dlpack] ..." for what no tensor is.
// Thread safety: as for Tensors.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/core/graph/tensor.h"

namespace heddle {

struct DlDevice {
  int32_t type = 1, id = 0;  // 1: the CPU
};
struct DlDataType {
  uint8_t code = 2, bits = 32;  // code 0: signed, 1: unsigned, 2: float, 4: bfloat, 6: bool
  uint16_t lanes = 1;
};
struct DlTensor {
  void* data = nullptr;
  DlDevice device;
  int32_t ndim = 0;
  DlDataType dtype;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  // in elements; null: row-major
  uint64_t byte_offset = 0;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* context = nullptr;
  void (*deleter)(DlManagedTensor*) = nullptr;
};
struct DlVersion {
  uint32_t major = 1, minor = 0;
};
struct DlManagedTensorVersioned {
  DlVersion version;
  void* context = nullptr;
  void (*deleter)(DlManagedTensorVersioned*) = nullptr;
  uint64_t flags = 0;
  DlTensor tensor;
};
inline constexpr uint64_t dl_read_only = 1, dl_copied = 2;

// To a device, or the default device. `copied`, where given, receives why there is a copy; empty: there is none.
Tensor from_dlpack(DlManagedTensorVersioned* tensor, DeviceContext* device = nullptr, std::string* copied = nullptr);
Tensor from_dlpack(DlManagedTensor* tensor, DeviceContext* device = nullptr, std::string* copied = nullptr);

// The value of `x` on the CPU; evaluates and waits. The caller, or who it is handed to, calls the deleter.
DlManagedTensorVersioned* to_dlpack(const Tensor& x, std::string* copied = nullptr);
// For libraries that know no versions.
DlManagedTensor* to_dlpack_unversioned(const Tensor& x, std::string* copied = nullptr);

}  // namespace heddle
