// DLPack tensors as inputs and outputs of a model: what fits a port, and who gives what back.
//
// Purpose: LoadedModel binds memory; this says which memory, and why not. Invariants: a tensor is given back once, and
// only where it was taken. Errors: UserErrors "[heddle_...] ...", CopyNeeded where a copy is refused or is no way out.
// Thread safety: one thread at a time; what is handed out may be given back from any.
#pragma once

#include <memory>
#include <vector>

#include "heddle/core/base/dlpack.h"
#include "heddle/core/contract/host_memory.h"
#include "heddle/core/device/context.h"
#include "heddle/runtime/model_image.h"

namespace heddle {

// Who has a tensor gives it back once; without a tensor that is nothing.
struct GiveBack {
  void* tensor = nullptr;
  bool versioned = true;
  void operator()() const;
};
// A tensor that a caller offers, checked: one of the two structs of core/base/dlpack.h. `place`: the function of the C
// interface.
struct OfferedArray {
  OfferedArray(void* tensor, bool versioned, const char* place);
  DlArray array;
  GiveBack give_back;
};

// DTypeError, ShapeError: the array is not what the port takes or gives.
void check_fits(const ModelImage::Port& port, const DlArray& array, const char* place);
// Null: kernels can use it where it lies, as far as that shows before the driver is asked.
const char* why_not_shared(const DlArray& array, DeviceContext& device);
// Where a reason stands against it: CopyNeeded where `copy` is refused.
void check_copy(const char* reason, DlCopy copy, const char* place);

// Memory of a tensor that a model's port lies in, in place of the model's own.
class SharedArray {
 public:
  SharedArray() = default;
  // Not yet taken: take() does that, so that a failure on the way leaves the tensor with the caller. storage() is null
  // where the driver does not take the memory.
  SharedArray(DeviceContext& device, const DlArray& array, HostUse use);

  const StoragePtr& storage() const { return storage_; }
  void take(const GiveBack& give_back);
  bool lies_at(const DlArray& array) const { return storage_ != nullptr && first_ == array.first; }
  bool overlaps(const DlArray& array) const;

 private:
  StoragePtr storage_;
  std::shared_ptr<GiveBack> taken_;
  const uint8_t* first_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace heddle
