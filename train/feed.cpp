#include "heddle/train/feed.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/train/batch_parts.h"

namespace heddle::train {

using Clock = DeviceWatch::Clock;

namespace {

// Accumulated parts follow each other in what is loaded: as many examples of each as the rank takes of one.
data::BatchPart part_of_rank(const Config& c, const Replicas* replicas) {
  if (replicas == nullptr || replicas->alone()) return {};
  const data::BatchPart part = replicas->part_of(c.training.batch);
  return {part.first * c.training.accumulate, part.size * c.training.accumulate};
}

std::unique_ptr<data::Loader> make_loader(const TrainingData& data, const Config& c, const Replicas* replicas) {
  if (c.data.workers < 0 || c.data.workers > 1024)
    throw ValueError(fmt::format("[train] {} workers; expected 0 to 1024", c.data.workers));
  const auto seed = static_cast<uint64_t>(c.run.seed);
  const data::LoaderOptions options{.batch = checked_examples_per_update(c),
                                    .workers = static_cast<int>(c.data.workers),
                                    .prefetch = c.data.prefetch,
                                    .seed = seed,
                                    .part = part_of_rank(c, replicas),
                                    .collate = data.collate,
                                    .transforms = data.transforms};
  if (data.stream) return std::make_unique<data::Loader>(data.stream, options);
  const int64_t examples = data.sampler ? data.sampler->size() : data.dataset->size();
  if (c.training.accumulate > 1 && examples < options.batch) {
    throw ValueError(fmt::format("[train] an update takes {} batches of {}, but an epoch has only {}",
                                 c.training.accumulate, c.training.batch, examples / c.training.batch));
  }
  if (examples > 0 && examples < options.batch)
    throw ValueError(
        fmt::format("[train] the batch size is {0}, but an epoch has only {1} examples: --batch {1} or less",
                    c.training.batch, examples));
  return std::make_unique<data::Loader>(
      data.dataset, data.sampler ? data.sampler : data::shuffled(data.dataset->size(), seed), options);
}

}  // namespace

Feed::Feed(const TrainingData& data, const Config& c, DeviceContext& device, DeviceWatch& watch,
           const Replicas* replicas)
    : device_(device),
      watch_(watch),
      parts_(parts_of_rank(c, replicas)),
      make_([&data, &c, replicas] { return make_loader(data, c, replicas); }),
      loader_(make_()) {}

void Feed::share() {
  const data::Loader::Position next = position();
  if (started_) finished_ = report();
  loader_ = make_();
  started_ = false;
  start(next);
}

void Feed::start(const data::Loader::Position& position) {
  if (started_) finished_ = report();
  started_ = true;
  loader_->start(position);
  fetched_ = false;
  more_ = true;
}

bool Feed::load(data::Sample& batch) {
  ahead_position_ = loader_->position();
  const auto meanwhile = [this] { watch_.look(); };
  if (loader_->next(batch, meanwhile)) return true;
  if (batches_per_epoch() >= 0) return false;
  if (ahead_position_.batch == 0)
    throw ValueError(fmt::format("[train] pass {} over the stream gave no batch", ahead_position_.epoch));
  start({ahead_position_.epoch + 1, 0});
  return load(batch);
}

void Feed::fetch() {
  if (fetched_ || !more_) return;
  const auto start = Clock::now();
  watch_.look();
  data::Sample batch;
  more_ = load(batch);
  watch_.look();
  fetched_ = true;
  if (more_) upload(batch);
  starved_ += watch_.dry_since(start);
}

void Feed::upload(const data::Sample& batch) {
  const auto start = Clock::now();
  ahead_ = data::to_tensors(parts_ > 1 ? in_parts(batch, parts_) : batch, device_);
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
  if (started_) all += loader_->report();
  return all;
}

Throughput Feed::throughput() const {
  const data::LoaderReport r = report();
  return {.fetch = r.fetch, .preprocess = r.preprocess + r.collate, .copy = copy_seconds_, .starved = starved_};
}

std::vector<Tensor> first_batch(const TrainingData& data, const Config& config, DeviceContext& device) {
  Config one = config;
  one.data.workers = 0;
  one.training.accumulate = 1;
  const std::unique_ptr<data::Loader> loader = make_loader(data, one, nullptr);
  data::Sample batch;
  return loader->next(batch) ? data::to_tensors(batch, device) : std::vector<Tensor>();
}

int64_t checked_examples_per_update(const Config& c) {
  int64_t examples = 0;
  const bool fits = !__builtin_mul_overflow(c.training.batch, c.training.accumulate, &examples);
  if (fits && c.training.batch > 0 && c.training.accumulate > 0) return examples;
  throw ValueError(
      fmt::format("[train] an update cannot take {} batches of {}", c.training.accumulate, c.training.batch));
}

}  // namespace heddle::train
