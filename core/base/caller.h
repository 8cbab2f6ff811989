// Caller: where the user called a public function: one pointer (std::source_location), kept in every node.
//
// Purpose: errors, logs and profiles name the user's line, not the library's. A public function has a last parameter
// `Caller caller = Caller::current()` and opens with `const CallerScope scope(caller);`; operators, which have no default parameters, take
// their first operand as an `Operand` (core/graph/functions.h), whose conversion carries the place. The outermost scope of a thread wins, so what a
// function composes itself of is its caller's. Thread safety: the present caller belongs to the thread.
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

// What is recorded meanwhile belongs to `caller`, whatever calls are around it: gradient nodes belong to the line of their forward node.
class CallerOverride {
 public:
  explicit CallerOverride(const Caller& caller) noexcept;
  ~CallerOverride();
  CallerOverride(const CallerOverride&) = delete;
  CallerOverride& operator=(const CallerOverride&) = delete;

 private:
  Caller before_;
};

}  // namespace heddle
