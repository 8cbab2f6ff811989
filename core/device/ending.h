// The end of a process whose threads still use devices.
//
// Purpose: drivers crash when their threads, or a program's calls into them, work on while the objects of static
// storage are destroyed. So what was submitted is waited for, and threads that go on are held back when they next enter
// a device. Method: a driver's compiler makes objects (function-local ones of LLVM) while a submitted kernel is
// compiled behind the queue; they are destroyed before the handlers that std::atexit got earlier. Objects of a thread,
// the main one included, are destroyed before all of that: the work is done there. Invariants: a thread is held back
// for two seconds at most, so that a static object may join it. Thread safety: any thread.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

namespace heddle::ending {

// What is done with the devices that are open (core/device/open_contexts.h): `wait` lets everything that was submitted
// finish; `idle(done)` calls done() while no thread is inside a device.
void at_end(void (*wait)(), void (*idle)(const std::function<void()>& done));
// From now on the end of this thread waits for the devices, where it may (os::may_wait_at_thread_end). In the main
// thread the others are held back as well.
void register_thread();

// Lets the main thread have the lock when the process ends: mutexes are not fair.
void give_way();
// Whether this thread is to leave the device it just entered, and to try again a little later (after which this was
// asked once more).
bool held_back();
void rest();

// While a thread blocks in a driver without a device's lock: the end of the process waits for it.
class Blocking {
 public:
  Blocking();
  ~Blocking();
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;
};

// A device's lock. Nobody waits for a device while holding it (DeviceContext::wait).
class Guard {
 public:
  explicit Guard(std::recursive_mutex& mutex) {
    give_way();
    lock_ = std::unique_lock(mutex);
    while (held_back()) {
      lock_.unlock();
      rest();
      lock_.lock();
    }
  }
  std::unique_lock<std::recursive_mutex> release() { return std::move(lock_); }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

}  // namespace heddle::ending
