// Typed exceptions of Heddle.
//
// Purpose: every failure a caller can meet is one of these types, so that a program can tell a mistake in its
// own call (ShapeError, DTypeError, ValueError) from a fault of the machine (OutOfMemory, DeviceLost, ...).
// Invariants: `what()` is one line that starts with the place in brackets, e.g.
//   "[matmul] inner dimensions differ: a is (32, 784), b is (128, 10)".
// Thread safety: plain values.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace heddle {

// Base of all exceptions that Heddle throws on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Faults in the caller's input: the command line turns these into one line and exit code 2.
class UserError : public Error {
 public:
  using Error::Error;
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

// An allocation that did not fit: what was asked, what is live.
class OutOfMemory : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// The device stopped answering; it stays dead until the process opens it anew.
class DeviceLost : public DeviceError {
 public:
  using DeviceError::DeviceError;
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
