// Feed: the loader's batches on the device, one ahead of the step that runs.
//
// Purpose: while the device computes a step, the next batch is taken from the loader and uploaded, beside the step
// where the device can (DeviceContext::stage()). Invariants: which batches come depends only on the position. Errors:
// those of the data. Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heddle/data/loader.h"
#include "heddle/train/config.h"
#include "heddle/train/replicas.h"
#include "heddle/train/task.h"
#include "heddle/train/throughput.h"

namespace heddle::train {

class Feed {
 public:
  // `watch` is asked to look at the device while the loop waits; it, data and config have to outlive the feed. With
  // `replicas`, which may be null, a batch is this rank's part of it; under --parts the tensors of its parts
  // (train/batch_parts.h), one behind the other.
  Feed(const TrainingData& data, const Config& config, DeviceContext& device, DeviceWatch& watch,
       const Replicas* replicas = nullptr);

  // -1 for a stream.
  int64_t batches_per_epoch() const { return loader_->batches(); }
  // `replicas` share out batches otherwise now: the next batch is the same one, of which this rank takes its new part.
  void share();
  // Batches from there on.
  void start(const data::Loader::Position& position);
  // Of the batch that next() gives.
  data::Loader::Position position() const { return fetched_ ? ahead_position_ : loader_->position(); }
  // The next batch; false at the end of the epoch. A stream is opened again at its end; ValueError when it gives no
  // batch at all.
  bool next(std::vector<Tensor>& batch);
  // Takes and uploads the batch after that, to be called while the device has work.
  void fetch();

  // Since it was made: all but the device's times, of which it knows `starved`.
  Throughput throughput() const;

 private:
  data::LoaderReport report() const;
  bool load(data::Sample& batch);
  void upload(const data::Sample& batch);

  DeviceContext& device_;
  DeviceWatch& watch_;
  size_t parts_;
  std::function<std::unique_ptr<data::Loader>()> make_;
  std::unique_ptr<data::Loader> loader_;
  data::LoaderReport finished_;  // epochs before this one
  std::vector<Tensor> ahead_;
  data::Loader::Position ahead_position_;
  bool fetched_ = false, more_ = true, started_ = false;
  double copy_seconds_ = 0, starved_ = 0;
};

// The first training.batch examples of an epoch, for those who look at a step without training; nothing of a stream
// that gives none. Errors: those of a Feed.
std::vector<Tensor> first_batch(const TrainingData& data, const Config& config, DeviceContext& device);

// examples_per_update(), which fits 64 bits; ValueError where it does not, or is below 1.
int64_t checked_examples_per_update(const Config& config);

}  // namespace heddle::train
