// HostCalls: what a Device is besides where its queue may hold calls of functions of the host's between its commands,
// so that what stands between two submissions, such as a message of another process, is waited for by no thread of the
// program's own.
//
// Found by dynamic_cast: a device of which this is no base takes none, as does one that says so. Thread safety: as for
// the device.
#pragma once

#include "heddle/core/base/callable.h"
#include "heddle/core/contract/handles.h"

namespace heddle {

class HostCalls {
 public:
  virtual bool takes_calls() const = 0;
  // The call is made once, by a thread of the driver's, when everything enqueued before has finished; what is enqueued
  // afterwards begins when it has returned. It throws nothing, calls no device, and waits for nothing that a device of
  // this process computes. Of a device that is lost it may never be made.
  virtual Ticket enqueue_call(Callable<void()> call) = 0;

 protected:
  ~HostCalls() = default;
};

}  // namespace heddle
