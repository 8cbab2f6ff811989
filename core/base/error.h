// Typed exceptions of Heddle.
//
// Purpose: every failure a caller can meet is one of these types, so that a program can tell a mistake in its
// own call (ShapeError, DTypeError, ValueError) from a fault of the machine (OutOfMemory, DeviceLost, ...).
// Invariants: `what()` is one line that starts with the function in brackets and ends with the user's line, where it is
// known, e.g.
//   "[matmul] inner dimensions differ: a is (32, 784), b is (128, 10) (model.cpp:17)".
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "heddle/core/base/caller.h"

namespace heddle {

// Base of all exceptions that Heddle throws on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Faults in the caller's input: the command line turns these into one line and exit code 2. The place of the public
// call under way is put behind the message (core/base/caller.h).
class UserError : public Error {
 public:
  explicit UserError(const std::string& message) : Error(with_line(message)) {}
};

// Shapes that do not fit an op.
class ShapeError : public UserError {
 public:
  using UserError::UserError;
};

// Element types that do not fit an op or a device.
class DTypeError : public UserError {
 public:
  using UserError::UserError;
};

// Any other argument that makes no sense (a negative learning rate, an axis out of range, tensors on two devices).
class ValueError : public UserError {
 public:
  using UserError::UserError;
};

// Axes of a mesh: one that is not there, or a value that varies along others than was said (core/graph/mesh_scope.h).
class AxisError : public ValueError {
 public:
  using ValueError::ValueError;
};

// A matrix that does not allow what was asked: singular, not positive definite, an iteration that did not converge.
class LinAlgError : public ValueError {
 public:
  LinAlgError(const std::string& message, int64_t batch, int64_t info)
      : ValueError(message), batch_(batch), info_(info) {}
  int64_t batch() const { return batch_; }  // number of the matrix, in row-major order of the batch axes
  int64_t info() const { return info_; }    // from 1: the pivot or leading minor

 private:
  int64_t batch_, info_;
};

// A gradient that does not exist or was asked for wrongly.
class GradError : public UserError {
 public:
  using UserError::UserError;
};

// Files: missing, truncated, wrong magic, unwritable.
class IoError : public UserError {
 public:
  using UserError::UserError;
};

// A memory budget below what a step can be made to need (core/memory/memory_budget.h).
class BudgetError : public UserError {
 public:
  BudgetError(const std::string& message, uint64_t needed) : UserError(message), needed_(needed) {}
  // Bytes that would do.
  uint64_t needed() const { return needed_; }

 private:
  uint64_t needed_;
};

// A device that was named but does not exist or whose driver is absent; says why.
class DeviceUnavailable : public UserError {
 public:
  using UserError::UserError;
};

// Faults of a device, its driver or this library.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// Who holds a device's memory when an allocation fails, in bytes.
struct MemoryUse {
  uint64_t requested = 0;  // by the call that failed
  uint64_t live = 0;       // handed out to tensors and steps, the arena included
  uint64_t arena = 0;      // temporaries of compiled steps
  uint64_t cached = 0;     // held from the driver and free
  uint64_t device = 0;     // what the device says it has; 0: unknown
};

// An allocation that did not fit: what was asked, what is live, and what was tried before giving up.
class OutOfMemory : public DeviceError {
 public:
  explicit OutOfMemory(const std::string& message, const MemoryUse& use = {}) : DeviceError(message), use_(use) {}
  // Filled where the allocator threw; zeros where a driver did.
  const MemoryUse& memory_use() const { return use_; }

 private:
  MemoryUse use_;
};

// The device stopped working; names the call and the last commands. It stays dead until reopen_device()
// (core/device/context.h); values that lived on it are gone, other devices are not touched.
class DeviceLost : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// The device did not finish its work within the limit that HEDDLE_TIMEOUT sets, or its driver's watchdog ended it;
// given up, as a lost one.
class DeviceTimeout : public DeviceLost {
 public:
  using DeviceLost::DeviceLost;
};

// A kernel that a driver's compiler refused; carries the compiler's log.
class CompileError : public DeviceError {
 public:
  CompileError(const std::string& message, std::string log) : DeviceError(message), log_(std::move(log)) {}
  const std::string& log() const { return log_; }

 private:
  std::string log_;
};

// A limit of a device (largest binding, group size, constants) that a program exceeds; names the limit.
class LimitError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace heddle
