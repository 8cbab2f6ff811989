// Ticket: a call that is under way, and its end.
//
// Invariants: the values that the call reads and writes stay where they are, and are touched by nobody else, until
// wait() returned or threw; a ticket that goes waits by itself, so that they may lie beside it. Errors: those of
// errors.h, from wait(). Thread safety: a ticket belongs to one thread at a time.
#pragma once

#include <chrono>
#include <memory>

namespace heddle::distributed {

struct TicketState;

class [[nodiscard]] Ticket {
 public:
  Ticket() = default;  // of nothing: done
  explicit Ticket(std::shared_ptr<TicketState> state);
  ~Ticket();
  Ticket(Ticket&&) noexcept = default;
  Ticket& operator=(Ticket&& other) noexcept;

  bool done() const;
  // Until the communication thread has taken the call, and has handed over what can be sent at once.
  void wait_for_start() const;
  // Until the call has ended; throws what it failed with, each time.
  void wait() const;

  // When the call was made, and when it had ended; of one that has. The same twice of a ticket of nothing.
  struct Times {
    std::chrono::steady_clock::time_point begun, over;
  };
  Times times() const;

 private:
  std::shared_ptr<TicketState> state_;
};

}  // namespace heddle::distributed
