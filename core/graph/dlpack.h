// DLPack: arrays of other libraries as Tensors, and Tensors as arrays of theirs, without a copy where the memory is the
// same.
//
// Method: the structs are those of the DLPack specification (core/base/dlpack.h). Memory is the same on devices whose
// drivers compute where the host's memory lies (HostMemory): reference:0, OpenCL on a CPU, Vulkan where host and device
// share memory (to take arrays, with VK_EXT_external_memory_host). Invariants: a tensor that was taken is given back by
// its deleter once, when no Tensor uses it any more; one that was refused (an exception) stays the caller's. What is
// handed out holds its memory until its deleter is called, from any thread, and is for reading: it is flagged so. A
// value that shares memory is what that memory holds: who writes there changes it, and assign() to a Tensor over memory
// of others may write there; read-only memory is copied. There is a copy where it cannot be otherwise, and the reason
// is said; with DlCopy::refused it is CopyNeeded instead. Errors: ValueError, DTypeError or ShapeError "[from_dlpack]
// ..." for what no tensor is. Thread safety: as for Tensors.
#pragma once

#include <string>

#include "heddle/core/base/dlpack.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// To a device, or the default device. `copied`, where given, receives why there is a copy; empty: there is none.
Tensor from_dlpack(DlManagedTensorVersioned* tensor, DeviceContext* device = nullptr, std::string* copied = nullptr,
                   DlCopy copy = DlCopy::allowed);
Tensor from_dlpack(DlManagedTensor* tensor, DeviceContext* device = nullptr, std::string* copied = nullptr,
                   DlCopy copy = DlCopy::allowed);

// The value of `x` on the CPU; evaluates and waits. The caller, or who it is handed to, calls the deleter.
DlManagedTensorVersioned* to_dlpack(const Tensor& x, std::string* copied = nullptr, DlCopy copy = DlCopy::allowed);
// For libraries that know no versions.
DlManagedTensor* to_dlpack_unversioned(const Tensor& x, std::string* copied = nullptr, DlCopy copy = DlCopy::allowed);

}  // namespace heddle
