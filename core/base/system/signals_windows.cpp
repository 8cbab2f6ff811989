#include <atomic>
#include <csignal>

#include "heddle/core/base/system/signals.h"
#include "heddle/core/base/system/windows_text.h"

namespace heddle::os {
namespace {

std::atomic<void (*)(int)> wanted{nullptr};

// On a thread of its own; what is not taken ends the process.
BOOL WINAPI on_event(DWORD event) {
  void (*const handler)(int) = wanted.exchange(nullptr);
  if (handler == nullptr) return FALSE;
  handler(event == CTRL_C_EVENT ? SIGINT : SIGTERM);
  return TRUE;
}

}  // namespace

struct Interrupts::Before {};

Interrupts::Interrupts(void (*handler)(int)) {
  wanted = handler;
  SetConsoleCtrlHandler(on_event, TRUE);
}

Interrupts::~Interrupts() {
  SetConsoleCtrlHandler(on_event, FALSE);
  wanted = nullptr;
}

// Such a write is an error here.
IgnoredPipes::IgnoredPipes() = default;
IgnoredPipes::~IgnoredPipes() = default;

}  // namespace heddle::os
