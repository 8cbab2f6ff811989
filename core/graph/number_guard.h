// The guard against NaN and infinity: names the operation that made the first one.
//
//   set_number_guard(true);                 // every thread; or HEDDLE_CHECK_NUMBERS=1, or `heddle train
//   --check-numbers` { const NumberGuardScope guard; ... }   // this thread
//
// With it (core/run/number_check.h), the results of every region (what one observation, optimizer step or call of a
// compiled function computes) are looked at on their device before anybody gets them. When one holds a NaN or an
// infinity, the region's operations are computed again one by one, unfused, on the same device, and a NumericError
// names the first, in the order in which they were recorded, that made a non-finite number from finite inputs, or a NaN
// from inputs without one, and from which the bad result has it: an infinity that nothing depends on, such as that of a
// masked logarithm, is no fault (while no Tensor holds it: what is held is a result). A NaN that came in with a tensor
// is reported as that tensor's. Infinities that came in as such (a mask) are no fault while they stay. Invariants:
// nothing of a region that fails gets a value, no parameter is overwritten; its tensors stay pending. Updates in place
// and replays of compiled functions do not happen while the guard is on, so a step takes more memory and time. Off it
// costs one look at a flag for each region. Thread safety: the flag of all threads may be changed by any; a scope
// belongs to its thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "heddle/core/base/error.h"

namespace heddle {

// Which operation made a NaN or an infinity.
struct NumericFault {
  std::string op;     // "log"; "leaf" for a tensor that came in with it
  std::string shape;  // "(32, 10)"
  uint64_t nan = 0, inf = 0, count = 0;
  uint64_t first = 0;  // row-major index of the first that is not finite
  std::string place;   // "model.cpp:17", or ""
};

class NumericError : public Error {
 public:
  NumericError(const std::string& message, NumericFault fault) : Error(message), fault_(std::move(fault)) {}
  const NumericFault& fault() const { return fault_; }

 private:
  NumericFault fault_;
};

// Whether this thread's regions are checked.
bool number_guard();
void set_number_guard(bool on);

class NumberGuardScope {
 public:
  explicit NumberGuardScope(bool on = true);
  ~NumberGuardScope();
  NumberGuardScope(const NumberGuardScope&) = delete;
  NumberGuardScope& operator=(const NumberGuardScope&) = delete;

 private:
  signed char before_;
};

}  // namespace heddle
