// The latest submissions of a device. Thread safety: under the device's lock.
#pragma once

#include <array>
#include <cstddef>

#include "heddle/core/contract/handles.h"

namespace heddle {

// Nothing here throws: the device has them already.
class RecentSubmissions {
 public:
  static constexpr size_t most = 48;  // that may be ahead; devices wait at 64 or more
  void add(Ticket ticket) { tickets_[count_++ % most] = ticket; }
  Ticket last() const { return count_ == 0 ? Ticket::none : tickets_[(count_ - 1) % most]; }
  // The one before all others, and the one in the middle; none: there are not so many.
  Ticket oldest() const { return count_ < most ? Ticket::none : tickets_[count_ % most]; }
  Ticket middle() const { return count_ < most ? Ticket::none : tickets_[(count_ + most / 2) % most]; }

 private:
  std::array<Ticket, most> tickets_{};
  size_t count_ = 0;  // ever
};

}  // namespace heddle
