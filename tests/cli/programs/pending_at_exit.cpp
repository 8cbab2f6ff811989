// pending_at_exit DEVICE WAY: ends while the device still has work, kernels to compile first (tests/cli/exit_test.cpp
// gives it empty caches).
#include <heddle/heddle.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "heddle/core/graph/future.h"
#include "heddle/core/inspect/profile.h"

using namespace heddle;

namespace {

Tensor kept;  // of static storage: destroyed after main

// A kernel that nothing has compiled yet, for each n.
Tensor submitted(int n = 0) {
  Tensor y = sin(tanh(uniform({5, 3 + n})) + 0.125 * n);
  eval({y});
  return y;
}

void work_without_end() {
  for (int n = 1;; ++n) submitted(n);
}

}  // namespace

int main(int count, char** arguments) {
  set_default_device(arguments[1]);
  const std::string way = arguments[2];
  if (way == "return") submitted();
  if (way == "static") kept = submitted();
  if (way == "exit") {
    submitted();
    std::exit(0);
  }
  if (way == "read") {
    const ValueFuture value = read_async(sum(submitted()));
    return 0;
  }
  if (way == "unread") read_async(sum(submitted()));
  if (way == "thread") std::thread([] { submitted(); }).join();
  if (way == "threads") {
    std::thread(work_without_end).detach();
    std::thread(work_without_end).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(count > 3 ? std::atoi(arguments[3]) : 300));
  }
  if (way == "profiler") {
    const auto profiler = std::make_unique<Profiler>();
    submitted();
  }
  if (way == "profiling") {
    static Profiler* const profiler = new Profiler();
    static_cast<void>(profiler);
    submitted();
  }
  return 0;
}
