// TicketState: the half of a ticket that the communication thread writes.
//
// Invariants: it ends once. A failure is kept as kind and text, each wait() throws an exception of its own. Thread
// safety: any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

namespace heddle::distributed {

enum class FailureKind { none, communication, mismatch, timeout };

struct Failure {
  FailureKind kind = FailureKind::none;
  std::string text;
};

struct TicketState {
  std::mutex mutex;
  std::condition_variable changed;
  bool started = false, done = false;
  Failure failure;
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point over;

  void start();
  void end(Failure how = {});
};

}  // namespace heddle::distributed
