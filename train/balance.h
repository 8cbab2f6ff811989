// Balance: shares of the batch that follow the ranks' measured speeds (--balance).
//
// Purpose: ranks wait for the slowest of them; with a share of the batch in proportion to its speed each needs as long
// as the others. Method: a rank's speed is its examples by its own seconds of an update (rank_pace.h), which takes its
// time for proportional to its examples. Shares change where two windows in a row say that an update would take a tenth
// less; what the estimate leaves out, such as the time of an update without examples, is found by the next change,
// which needs four windows, the one after that eight: a change compiles kernels, and noise shall not bring many.
// Invariants: all ranks decide alike, as they have the same numbers; each has one example at least; a batch keeps its
// examples and its order. While it lives each size of a batch has kernels of its own: the third one would otherwise get
// those for any size (core/ir/dynamic_shapes.h). Since time decides, two runs differ in the last bits. Errors:
// ValueError with what needs equal shares. Thread safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/train/config.h"
#include "heddle/train/replicas.h"

namespace heddle::train {

// Examples of each rank that take all of them as long, by the seconds that `examples` took; at least one each. The same
// where a time is not above 0.
std::vector<int64_t> balanced_shares(const std::vector<int64_t>& examples, const std::vector<double>& seconds);

class Balance {
 public:
  Balance(Replicas& replicas, const Config& config);
  ~Balance();
  Balance(const Balance&) = delete;
  Balance& operator=(const Balance&) = delete;

  // A window is over in which an update took each rank so long, without waiting; empty: it does not count. Whether the
  // shares of `replicas` are others now.
  bool follow(const std::vector<double>& seconds);

 private:
  Replicas& replicas_;
  int64_t batch_;
  bool wanted_, fixed_sizes_;
  size_t enough_ = 2;                      // windows in a row
  std::vector<std::vector<double>> seen_;  // seconds of those so far
};

}  // namespace heddle::train
