#include "heddle/core/device/event.h"

#include "heddle/core/base/host_span.h"

namespace heddle {

bool Event::done() const { return !device_ || ticket_ == Ticket::none || device_->done(ticket_); }

void Event::wait() const {
  const HostSpan span("wait");
  if (device_) device_->wait(ticket_);
}

}  // namespace heddle
