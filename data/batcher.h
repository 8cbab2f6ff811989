// Batcher: batches of an ImageSet in a shuffled order, as host arrays ready for a device.
//
// Purpose: the loader of a training loop. Invariants: the order of epoch e depends only on (seed, e, number of images),
// by a Fisher-Yates shuffle over Philox words, so it is the same for every device and platform; an epoch visits each
// image at most once; pixels become floats pixel / 255. With drop_last (training) every batch is full, so one compiled
// plan serves all; without it the last batch may be smaller. Thread safety: none; one thread drives a Batcher.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/data/datasets.h"

namespace heddle::data {

// Position i of epoch `epoch` reads item order[i].
std::vector<uint32_t> shuffled_order(int64_t items, uint64_t seed, uint64_t epoch);

struct Batch {
  int64_t size = 0;
  std::vector<float> images;    // size x rows*columns
  std::vector<int32_t> labels;  // size
};

struct BatcherOptions {
  int64_t batch = 32;
  uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = true;
};

class Batcher {
 public:
  // Keeps a reference to `set`. ValueError when the batch is not positive, or no full batch fits and drop_last is set.
  Batcher(const ImageSet& set, const BatcherOptions& options);

  int64_t batches_per_epoch() const { return batches_; }
  // Starts epoch `epoch` at its batch number `first` (for resuming).
  void start_epoch(uint64_t epoch, int64_t first = 0);
  // Fills `out`, reusing its memory; false at the end of the epoch.
  bool next(Batch& out);

 private:
  const ImageSet& set_;
  BatcherOptions options_;
  int64_t batches_ = 0;
  int64_t at_ = 0;
  std::vector<uint32_t> order_;
};

}  // namespace heddle::data
