// Requests of the system to a program: Ctrl-C, the end, a pipe that nobody reads.
//
// Thread safety: one Interrupts and one IgnoredPipes at a time in a process.
#pragma once

#include <memory>

namespace heddle::os {

// While it lives, the first Ctrl-C (SIGINT) or request to end (SIGTERM) calls `handler` with the signal's number, on
// whatever thread, inside a signal where the system has them. A second one of either ends the process at once.
class Interrupts {
 public:
  explicit Interrupts(void (*handler)(int number));
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

// While it lives, writing into a pipe whose other end is gone is an error (EPIPE) and not the end of the process.
class IgnoredPipes {
 public:
  IgnoredPipes();
  ~IgnoredPipes();
  IgnoredPipes(const IgnoredPipes&) = delete;
  IgnoredPipes& operator=(const IgnoredPipes&) = delete;

 private:
  void (*before_)(int) = nullptr;
};

}  // namespace heddle::os
