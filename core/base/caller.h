// Caller: where the user called a public function: one pointer (std::source_location), kept in every node recorded meanwhile.
//
// Purpose: errors and logs name the user's line, not the library's. A public function has a last parameter `Caller caller = Caller::current()` and
// opens with `const CallerScope scope(caller);`. So far those are the observations of a Tensor; functions that record ops do not say their place.
// The outermost scope of a thread wins, so what a function composes itself of is its caller's. Thread safety: the present caller belongs to the thread.
#pragma once

#include <source_location>
#include <string>

namespace heddle {

using Caller = std::source_location;

// Where the present outermost public call of this thread was written; line() == 0 outside of one.
Caller current_caller() noexcept;
// "train.cpp:42" (the file without its folders), or "" for an unknown place.
std::string place_of(const Caller& caller);

class CallerScope {
 public:
  explicit CallerScope(const Caller& caller) noexcept;
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  bool outermost_;
};

}  // namespace heddle
