// BackgroundTask: one piece of work beside the thread that started it.
//
// Purpose: what training does not wait for, as the writing of a file. Invariants: one piece at a time; start() waits
// for the one before. Errors: what the work throws reaches the next wait() or start(), once; the destructor waits and
// drops it. Where the system has no more threads the work is done by start(). Thread safety: driven by one thread.
#pragma once

#include <exception>
#include <functional>
#include <thread>

namespace heddle::train {

class BackgroundTask {
 public:
  BackgroundTask() = default;
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  void start(std::function<void()> work);
  // Until the work is done.
  void wait();

 private:
  std::thread thread_;
  std::exception_ptr error_;  // the thread's while it runs
};

}  // namespace heddle::train
