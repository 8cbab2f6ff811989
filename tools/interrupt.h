// InterruptScope: what the first SIGINT (Ctrl-C) or SIGTERM (which job systems send before they kill) does meanwhile. A
// second one of either ends the process at once.
//
// Thread safety: one at a time in a process; the handler runs in a signal's context.
#pragma once

#include <csignal>

#include "heddle/core/base/system/signals.h"

namespace heddle::tools {

class InterruptScope {
 public:
  // `handler` may be null: then caught() says it all.
  explicit InterruptScope(void (*handler)() = nullptr) : interrupts_(prepared(handler)) {}
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Of the latest scope, also after its end.
  static bool caught() { return caught_ != 0; }
  // 130 after SIGINT, 143 after SIGTERM, as a shell says it of a process that ended by them; 0 without.
  static int exit_code() { return caught_ == 0 ? 0 : 128 + caught_; }

 private:
  static void (*prepared(void (*handler)()))(int) {
    handler_ = handler;
    caught_ = 0;
    return on_signal;
  }
  static void on_signal(int number) {
    caught_ = number;
    if (handler_ != nullptr) handler_();
  }

  inline static volatile std::sig_atomic_t caught_ = 0;
  inline static void (*handler_)() = nullptr;
  const os::Interrupts interrupts_;
};

}  // namespace heddle::tools
