#include "heddle/distributed/ticket.h"

#include <utility>

#include "heddle/distributed/errors.h"
#include "heddle/distributed/ticket_state.h"

namespace heddle::distributed {

void TicketState::start() {
  const std::lock_guard lock(mutex);
  started = true;
  changed.notify_all();
}

void TicketState::end(Failure how) {
  const std::lock_guard lock(mutex);
  failure = std::move(how);
  over = std::chrono::steady_clock::now();
  done = started = true;
  changed.notify_all();
}

namespace {

void wait_for_end(TicketState& state) {
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.done; });
}

}  // namespace

Ticket::Ticket(std::shared_ptr<TicketState> state) : state_(std::move(state)) {}

Ticket::~Ticket() {
  if (state_) wait_for_end(*state_);
}

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (state_ && state_ != other.state_) wait_for_end(*state_);
  state_ = std::move(other.state_);
  return *this;
}

bool Ticket::done() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

Ticket::Times Ticket::times() const {
  if (!state_) return {};
  const std::lock_guard lock(state_->mutex);
  return {state_->begun, state_->over};
}

void Ticket::wait_for_start() const {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->started; });
}

void Ticket::wait() const {
  if (!state_) return;
  wait_for_end(*state_);
  const Failure& failure = state_->failure;  // written before the end, by nobody after it
  switch (failure.kind) {
    case FailureKind::none:
      return;
    case FailureKind::communication:
      throw CommunicationError(failure.text);
    case FailureKind::mismatch:
      throw MismatchError(failure.text);
    case FailureKind::timeout:
      throw CommunicationTimeout(failure.text);
  }
}

}  // namespace heddle::distributed
