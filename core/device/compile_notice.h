// Says on stderr, once per process, that kernels are being compiled, when that takes longer than two seconds in all: a
// first step can take a minute.
//
// Invariants: one line, whole, never on stdout; none with HEDDLE_QUIET=1. Thread safety: any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace heddle {

// Lives while `count` more kernels are compiled (0: those that were begun before, by the driver behind its queue).
class CompileNotice {
 public:
  CompileNotice(const std::string& device, size_t count);
  ~CompileNotice();
  CompileNotice(const CompileNotice&) = delete;
  CompileNotice& operator=(const CompileNotice&) = delete;
  // So many of them are compiled.
  void done(size_t count);

  // The patience of two seconds, for tests; also forgets what was said and counted.
  static void reset(double seconds);

 private:
  void watch();

  std::string device_;
  std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread watcher_;  // last: it uses all of the above
};

}  // namespace heddle
