// Event: a point in a device's queue that the host can ask about.
//
// Purpose: DeviceContext::event() marks everything submitted so far; the host goes on and looks, or waits, later.
// Invariants: an event that was found done stays done; a default-constructed event is done. Thread safety: an Event may
// be copied and used by any thread; waiting does not hold the device, so other threads record and submit meanwhile.
#pragma once

#include "heddle/core/contract/handles.h"

namespace heddle {

// What was submitted to a device, as an event asks for it: a DeviceContext. Thread safety: any thread.
class Submissions {
 public:
  virtual bool done(Ticket ticket) const = 0;
  virtual void wait(Ticket ticket) = 0;

 protected:
  ~Submissions() = default;
};

class Event {
 public:
  Event() = default;
  Event(Submissions& device, Ticket ticket) : device_(&device), ticket_(ticket) {}

  // Never waits. Throws DeviceLost when the device was lost.
  bool done() const;
  // Returns when the work has finished. Throws DeviceLost, or DeviceTimeout (HEDDLE_TIMEOUT).
  void wait() const;
  Ticket ticket() const { return ticket_; }

 private:
  Submissions* device_ = nullptr;
  Ticket ticket_ = Ticket::none;
};

}  // namespace heddle
