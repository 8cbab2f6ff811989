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
  const bool by_key = event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT;
  handler(event == CTRL_C_EVENT ? SIGINT : SIGTERM);
  // The window is closed, or the user leaves: Windows ends the process once this returns, and by itself some seconds
  // later. What the handler asked for is done until then.
  if (!by_key) Sleep(INFINITE);
  return TRUE;
}

}  // namespace

struct Interrupts::Before {};

Interrupts::Interrupts(void (*handler)(int)) {
  wanted = handler;
  static const BOOL installed = SetConsoleCtrlHandler(on_event, TRUE);
  static_cast<void>(installed);
}

// on_event() stays: Windows removes none while one runs, and that may sleep.
Interrupts::~Interrupts() { wanted = nullptr; }

// Such a write is an error here.
IgnoredPipes::IgnoredPipes() = default;
IgnoredPipes::~IgnoredPipes() = default;

}  // namespace heddle::os
