// Reading values without waiting for them.
//
// Purpose: read_async(loss) enqueues what the value needs and a copy of it to the host, and returns; the loop goes on
// recording and submitting, and asks for the value some steps later. What is submitted afterwards may overwrite or free
// the tensor: the future holds its value as of the call. Invariants: bytes()/item()/to_vector() give the same values as
// Tensor's functions of those names would have given at the time of the call. Thread safety: a future may be moved to
// and used by another thread; waiting does not hold the device.
#pragma once

#include <memory>
#include <vector>

#include "heddle/core/device/event.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

class ValueFuture {
 public:
  ValueFuture() = default;
  bool valid() const { return state_ != nullptr; }
  // Whether the value is here; does not wait. Throws DeviceLost when it will never be.
  bool ready() const;
  // Throws DeviceLost or DeviceTimeout.
  void wait() const;
  // These wait. An empty future is a ValueError.
  std::vector<uint8_t> bytes() const;  // as stored, row-major
  std::vector<double> to_doubles() const;
  double item() const;  // one element; ShapeError otherwise
  template <class T>
  std::vector<T> to_vector() const {
    const std::vector<double> wide = to_doubles();
    return std::vector<T>(wide.begin(), wide.end());
  }

 private:
  friend ValueFuture read_async(TensorArg tensor);
  struct State;
  const State& state(const char* place) const;
  std::shared_ptr<const State> state_;
};

// Evaluates the tensor (enqueued, not waited for) and starts reading it.
ValueFuture read_async(TensorArg tensor);

}  // namespace heddle
