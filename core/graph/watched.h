// Values that nobody asked for and that are judged all the same: at the next observation after they were computed.
//
// Purpose: a device cannot throw. What may go wrong there (a singular matrix, an index out of range) is computed as a
// small value beside the result; it is watched here, and the next observation of any tensor on this thread reads it and
// lets its judge throw. The observation itself is not lost: repeat it. Invariants: a watched value is held, so a step
// computes it; it is read once. One that stands over placeholders (an example of vmap, an argument of a loop's body or
// a branch) is replaced, by the WatchedScope of what made these, by its values for all examples or iterations, stacked
// along new first axes. Thread safety: per thread, as recording is.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/graph/observation.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

struct HostArray;

// Throws when the value is at fault; called in a CallerScope of the place where it was watched. In a branch of cond()
// that is not taken a value is -1.
using Judge = Callable<void(const HostArray& value)>;
void watch(const Tensor& value, Judge judge);

// While alive, a function runs over placeholders. When an exception leaves it, what the function had watched is
// forgotten.
class WatchedScope {
 public:
  WatchedScope();
  ~WatchedScope();
  WatchedScope(const WatchedScope&) = delete;
  WatchedScope& operator=(const WatchedScope&) = delete;

  // What has been watched since and has no value yet, to be replaced; valid until the next call of watch().
  std::vector<Tensor*> values() const;
  // The function never runs.
  void forget() const;

 private:
  uint64_t first_;
  int exceptions_;
};

}  // namespace heddle
