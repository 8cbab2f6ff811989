#include "train/feed.h"

#include "core/base/seconds_since.h"

namespace heddle::train {

using Clock = DeviceWatch::Clock;

Feed::Feed(const TrainingData& data, const Config& c, DeviceContext& device, DeviceWatch& watch)
    : device_(device),
      watch_(watch),
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
  const auto start = Clock::now();
  watch_.look();
  data::Sample batch;
  more_ = loader_.next(batch, [this] { watch_.look(); });
  watch_.look();
  fetched_ = true;
  if (more_) upload(batch);
  starved_ += watch_.dry_since(start);
}

void Feed::upload(const data::Sample& batch) {
  const auto start = Clock::now();
  ahead_ = data::to_tensors(batch, device_);
  copy_seconds_ += seconds_since(start);
  watch_.look();
}

bool Feed::next(std::vector<Tensor>& batch) {
  fetch();
  if (!more_) return false;
  batch = std::move(ahead_);
  fetched_ = false;
  return true;
}

data::LoaderReport Feed::report() const {
  data::LoaderReport all = finished_;
  if (started_) all += loader_.report();
  return all;
}

Throughput Feed::throughput() const {
  const data::LoaderReport r = report();
  return {.fetch = r.fetch, .preprocess = r.preprocess + r.collate, .copy = copy_seconds_, .starved = starved_};
}

}  // namespace heddle::train
