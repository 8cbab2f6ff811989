#include "heddle/core/graph/run_once.h"

#include <atomic>
#include <utility>

namespace heddle {
namespace {

std::atomic<bool> everywhere{false};
thread_local signed char here = -1;  // 0, 1, or -1 for that of all threads

}  // namespace

bool run_once() { return here < 0 ? everywhere.load(std::memory_order_relaxed) : here != 0; }
void set_run_once(bool on) { everywhere.store(on, std::memory_order_relaxed); }

RunOnceScope::RunOnceScope(bool on) : before_(std::exchange(here, on ? 1 : 0)) {}
RunOnceScope::~RunOnceScope() { here = before_; }

}  // namespace heddle
