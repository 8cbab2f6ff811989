// Faults between the processes of a world.
//
// Invariants: a message starts with the operation in brackets and names ranks, group and the number of the call. After
// one of these its world is broken: every other call of it fails with the same message. Thread safety: plain values.
#pragma once

#include "heddle/core/base/error.h"

namespace heddle::distributed {

// A fault of another process, of what carries messages, or of a world that is broken.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

// Ranks of a group that made different calls.
class MismatchError : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

// Nothing came for as long as WorldOptions allows.
class CommunicationTimeout : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

// What carries messages is not there: a library that is missing, or that belongs to another launcher.
class TransportUnavailable : public UserError {
 public:
  using UserError::UserError;
};

}  // namespace heddle::distributed
