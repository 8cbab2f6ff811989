// Loader: batches of a dataset, made by worker threads ahead of the loop that takes them.
//
//   data::Loader loader(train, data::shuffled(train->size(), seed), {.batch = 64, .workers = 4});
//   for (uint64_t epoch = 0; epoch < 5; ++epoch) {
//     loader.start_epoch(epoch);
//     data::Sample batch;
//     while (loader.next(batch)) { auto tensors = data::to_tensors(batch, device); ... }
//   }
//
// Invariants: batches come in the sampler's order and hold the same bytes for any number of workers. At most `prefetch`
// batches are ready or in the making ahead of the loop. position() after a batch, given to start_epoch() of a new
// loader, goes on with the next one; a dataset is asked for nothing that was seen before (a stream passes over it,
// SampleStream::skip()). Errors: ValueError for options that cannot be meant; what a dataset throws reaches next() at
// the batch it belongs to, and the loader goes on behind it; a stream that throws ends there. Thread safety: one thread
// drives a loader; its workers are its own and end with it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "heddle/core/base/callable.h"
#include "heddle/core/base/owned.h"
#include "heddle/data/dataset.h"
#include "heddle/data/sampler.h"

namespace heddle::data {

using Collate = Callable<Sample(std::span<const Sample> samples)>;

// Examples of a batch: [first, first + size); size 0: all of them.
struct BatchPart {
  int64_t first = 0, size = 0;
};

struct LoaderOptions {
  static Collate stacked();  // stack()
  int64_t batch = 32;
  int workers = 0;        // 0: batches are made by the thread that asks
  int64_t prefetch = 0;   // batches; 0: two for each worker
  bool drop_last = true;  // only full batches
  uint64_t seed = 0;      // of the examples' Random, whose index is the place in the epoch
  // What is made of each batch, for processes that share the batches of an epoch. Places in the epoch are those of the
  // whole batches.
  BatchPart part = {};
  Collate collate = stacked();
  std::vector<Transform> transforms = {};  // of each example, in the workers
};

// Where the time of an epoch went, in seconds. With workers, fetch, preprocess and collate pass beside the loop,
// several at once.
struct LoaderReport {
  double fetch = 0;       // datasets, with the transforms that are part of them
  double preprocess = 0;  // LoaderOptions::transforms
  double collate = 0;
  double waiting = 0;  // of the loop, for a batch; a loop that runs ahead of a device waits without harm
  double loop = 0;     // of the loop, between batches
  int64_t batches = 0, examples = 0;
  LoaderReport& operator+=(const LoaderReport& more);
  // "20 examples in 5 batches; fetch 0.1 s, ...; the loop waited for data 62 % of the time".
  std::string str() const;
};

class Loader {
 public:
  struct Position {
    uint64_t epoch = 0;
    int64_t batch = 0;  // the next one
    bool operator==(const Position&) const = default;
  };

  Loader(DatasetPtr dataset, SamplerPtr sampler, const LoaderOptions& options);
  Loader(IterableDatasetPtr dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Of an epoch; -1 for a stream.
  int64_t batches() const;
  void start_epoch(uint64_t epoch, int64_t first_batch = 0);
  void start(const Position& position) { start_epoch(position.epoch, position.batch); }
  // False at the end of the epoch. While this thread waits it calls `meanwhile` about every 0.2 ms; without workers
  // after each example that it makes.
  bool next(Sample& batch, const Callable<void()>& meanwhile = {});
  Position position() const;
  // Since start_epoch().
  LoaderReport report() const;

  class Source;  // internal

 private:
  class Epoch;
  Owned<Source> source_;
  Owned<Epoch> epoch_;
};

}  // namespace heddle::data
