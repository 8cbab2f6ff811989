#include <signal.h>

#include "heddle/core/base/system/signals.h"

namespace heddle::os {
namespace {

void (*wanted)(int) = nullptr;

void on_signal(int number) {
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  wanted(number);
}

}  // namespace

struct Interrupts::Before {
  struct sigaction interrupt {
  }, terminate{};
};

Interrupts::Interrupts(void (*handler)(int)) : before_(std::make_unique<Before>()) {
  wanted = handler;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &before_->interrupt);
  ::sigaction(SIGTERM, &action, &before_->terminate);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &before_->interrupt, nullptr);
  ::sigaction(SIGTERM, &before_->terminate, nullptr);
}

IgnoredPipes::IgnoredPipes() : before_(::signal(SIGPIPE, SIG_IGN)) {}
IgnoredPipes::~IgnoredPipes() { ::signal(SIGPIPE, before_); }

}  // namespace heddle::os
