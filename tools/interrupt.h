// InterruptScope: what Ctrl-C does meanwhile. A second Ctrl-C ends the process at once.
//
// Thread safety: one at a time in a process; the handler runs in a signal's context.
#pragma once

#include <csignal>

namespace heddle::tools {

class InterruptScope {
 public:
  explicit InterruptScope(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptScope() { sigaction(SIGINT, &before_, nullptr); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace heddle::tools
