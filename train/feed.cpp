#include "train/feed.h"

#include <chrono>

#include "core/base/seconds_since.h"

namespace heddle::train {
namespace {

data::LoaderReport sum(data::LoaderReport a, const data::LoaderReport& b) {
  a.fetch += b.fetch;
  a.preprocess += b.preprocess;
  a.collate += b.collate;
  a.waiting += b.waiting;
  a.loop += b.loop;
  a.batches += b.batches;
  a.examples += b.examples;
  return a;
}

}  // namespace

Feed::Feed(const TrainingData& data, const Config& c, DeviceContext& device)
    : device_(device),
      loader_(data.dataset, data.sampler ? data.sampler : data::shuffled(data.dataset->size(), static_cast<uint64_t>(c.run.seed)),
              {.batch = c.training.batch, .workers = static_cast<int>(c.data.workers), .prefetch = c.data.prefetch, .seed = static_cast<uint64_t>(c.run.seed), .collate = data.collate, .transforms = data.transforms}) {}

void Feed::start_epoch(int64_t epoch, int64_t first) {
  if (started_) finished_ = report();
  started_ = true;
  loader_.start_epoch(static_cast<uint64_t>(epoch), first);
  fetched_ = false;
  more_ = true;
}

void Feed::fetch() {
  if (fetched_ || !more_) return;
  data::Sample batch;
  more_ = loader_.next(batch);
  fetched_ = true;
  if (!more_) return;
  const auto start = std::chrono::steady_clock::now();
  ahead_ = data::to_tensors(batch, device_);
  copy_seconds_ += seconds_since(start);
}

bool Feed::next(std::vector<Tensor>& batch) {
  fetch();
  if (!more_) return false;
  batch = std::move(ahead_);
  fetched_ = false;
  return true;
}

data::LoaderReport Feed::report() const { return started_ ? sum(finished_, loader_.report()) : finished_; }

}  // namespace heddle::train
