// InterruptScope: what the first SIGINT (Ctrl-C) or SIGTERM (which job systems send before they kill) does meanwhile. A
// second one of either ends the process at once.
//
// Thread safety: one at a time in a process; the handler runs in a signal's context.
#pragma once

#include <csignal>

namespace heddle::tools {

class InterruptScope {
 public:
  // `handler` may be null: then caught() says it all.
  explicit InterruptScope(void (*handler)() = nullptr) {
    handler_ = handler;
    caught_ = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &before_interrupt_);
    sigaction(SIGTERM, &action, &before_terminate_);
  }
  ~InterruptScope() {
    sigaction(SIGINT, &before_interrupt_, nullptr);
    sigaction(SIGTERM, &before_terminate_, nullptr);
  }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Of the latest scope, also after its end.
  static bool caught() { return caught_ != 0; }
  // 130 after SIGINT, 143 after SIGTERM, as a shell says it of a process that ended by them; 0 without.
  static int exit_code() { return caught_ == 0 ? 0 : 128 + caught_; }

 private:
  static void on_signal(int number) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    caught_ = number;
    if (handler_ != nullptr) handler_();
  }

  inline static volatile std::sig_atomic_t caught_ = 0;
  inline static void (*handler_)() = nullptr;
  struct sigaction before_interrupt_ {
  }, before_terminate_{};
};

}  // namespace heddle::tools
