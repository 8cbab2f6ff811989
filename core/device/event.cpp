#include "heddle/core/device/event.h"

#include "heddle/core/base/host_span.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"

namespace heddle {

bool Event::done() const {
  if (!device_ || ticket_ == Ticket::none) return true;
  return device_->lock().device.done(ticket_);
}

void Event::wait() const {
  const HostSpan span("wait");
  if (device_) device_->wait(ticket_);
}

}  // namespace heddle
