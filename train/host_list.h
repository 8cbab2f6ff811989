// HostList: numbers of a device that the host reads and writes between two submissions.
//
// Purpose: what ranks exchange lies in one tensor that stays. Where the device computes in the host's memory
// (HostMemory) the host works on its bytes in place; elsewhere on a copy. Invariants: the tensor outlives the list, and
// is f32 of one dimension; the device does not touch it between take() and give_back(). Errors: those of the device.
// Thread safety: none.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "heddle/core/device/event.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {
class Storage;
}

namespace heddle::train {

class HostList {
 public:
  explicit HostList(const Tensor& list) : list_(&list) {}

  // The values, once what `end` marks has finished. Waits for that alone where the memory is the host's, else for all
  // that was submitted.
  std::span<float> take(const Event& end);
  // What was made of them is what the device reads from now on.
  void give_back();

 private:
  const Tensor* list_;
  std::weak_ptr<Storage> storage_;  // whose address is known; weak: an owner more, and it is not updated in place
  float* address_ = nullptr;        // null: the device's memory is its own
  std::vector<float> copy_;
};

}  // namespace heddle::train
