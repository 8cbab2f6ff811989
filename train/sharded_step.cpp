#include "heddle/train/sharded_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/compile/hand_over.h"
#include "heddle/core/functions/functions.h"
#include "heddle/distributed/gradient_lists.h"
#include "heddle/train/exact_squares.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

int64_t bucket_elements(const std::vector<int64_t>& elements) {
  const int64_t bytes = std::accumulate(elements.begin(), elements.end(), int64_t{0}) * int64_t{sizeof(float)};
  return distributed::bucket_bytes_of(bytes) / int64_t{sizeof(float)};
}

ShardLayout layout_of(const nn::Module& model, const Optimizers& optimizers, const Config& config,
                      const Replicas& replicas) {
  if (config.log.histograms_every > 0)
    throw ValueError("[train] --histograms-every with --sharding: no rank has all gradients");
  const std::vector<int64_t> elements = elements_to_own(model);
  const int64_t bucket = config.training.sharding == "zero1" ? 0 : bucket_elements(elements);
  return {elements,
          {.ranks = replicas.owners(), .elementwise = optimizers.is_elementwise(), .bucket_elements = bucket}};
}

// The sum of squares as f32; infinite where that has none so large. With a limit of elements, of what it leaves.
float squares_of(std::span<const float> values, double limit) {
  double sum = 0;
  for (const float value : values) {
    const double limited = limit > 0 ? std::clamp<double>(value, -limit, limit) : value;  // of a NaN: NaN
    sum += limited * limited;
  }
  return sum > std::numeric_limits<float>::max() ? std::numeric_limits<float>::infinity() : static_cast<float>(sum);
}

}  // namespace

bool shares_states(const Config& config, const Replicas* replicas) {
  return shares_parameters(config, replicas) ||
         (config.training.sharding != "none" && replicas != nullptr && !replicas->alone());
}

ShardedStep::ShardedStep(nn::Module& model, Optimizers& optimizers, const Config& config, DeviceContext& device,
                         Replicas& replicas, BatchParts& batch, Parts parts)
    : optimizers_(optimizers),
      device_(device),
      replicas_(replicas),
      batch_(batch),
      parts_(std::move(parts)),
      shared_(model, layout_of(model, optimizers, config, replicas), replicas.owner(), batch.weight()),
      own_(static_cast<size_t>(std::max(layout().elements_of(replicas.owner()), int64_t{1}))),
      streams_(config.training.sharding == "zero3" || (config.training.sharding == "zero2" && !batch.wanted())),
      compiled_part_(compile(
          [this](const std::vector<Tensor>& part) { return record_part(part); },
          {.name = "training step, gradients", .memory_budget = static_cast<uint64_t>(config.training.memory_budget)})),
      compiled_update_(compile([this](const Tensor& own, const Tensor& rest,
                                      const std::vector<Tensor>& values) { record_update(own, rest, values); },
                               {.name = "training step, update of shards"})) {
  optimizers_.keep_shards(shared_.shards());
  if (shares_parameters(config, &replicas)) {
    parameters_.emplace(model, layout(), config, replicas);
    return;
  }
  const size_t buckets = layout().buckets().size();
  for (size_t b = 0; b < buckets; ++b) {
    const auto record = [this, b, last = b + 1 == buckets](const Tensor& list) {
      shared_.unpack_bucket(b, list);
      if (last) parts_.gathered();
    };
    compiled_gathered_.emplace_back(compile(record, {.name = "training step, parameters of their owners"}));
  }
}

// Lists that stream stand in the order in which a backward pass ends with them; the rest is behind them.
std::vector<Tensor> ShardedStep::record_part(const std::vector<Tensor>& part) {
  const std::vector<Tensor> buffers = batch_.buffers();
  std::vector<Tensor> lists = shared_.pack(parts_.gradients(part));
  batch_.restore(buffers);
  optimizers_.zero_grad();
  if (streams_) std::reverse(lists.begin(), lists.end() - 1);
  return lists;
}

// Behind the averages stands the sum of squares. New elements take the place of their gradients. `values`: one list of
// what the parameters have, where they do not say it.
void ShardedStep::record_update(const Tensor& own, const Tensor& rest, const std::vector<Tensor>& values) {
  std::vector<Tensor> averages = shared_.unpack_rest(rest, 1);
  const Tensor squares = averages.back();
  averages.pop_back();
  parts_.look(averages);
  const std::vector<Tensor> now = values.empty() ? std::vector<Tensor>() : shared_.elements(values.front());
  const std::vector<Tensor> updated =
      optimizers_.update_shards(shared_.gradients(own), optimizers_.takes_norm() ? norm_of(squares) : Tensor(), now);
  parts_.updated();
  const NoGradScope no_grad;
  Tensor elements = own;
  elements.assign(shared_.pack_shards(updated, now));
}

Wishes ShardedStep::submit(const std::vector<Tensor>& part, const Wishes& mine, const Callable<void()>& meanwhile) {
  std::vector<float> rest = streams_ ? stream_gradients(part, meanwhile) : take_gradients(part, meanwhile);
  const Wishes all = average_rest(rest, mine);
  {
    const Tensor own = uploaded(own_, device_);
    const auto values = parameters_ ? std::vector(1, uploaded(parameters_->own(), device_)) : std::vector<Tensor>();
    compiled_update_(own, uploaded(rest, device_), values);
    own_ = floats_of(own);
  }
  parameters_ ? parameters_->set_own(own_) : gather();
  return all;
}

std::vector<float> ShardedStep::take_gradients(const std::vector<Tensor>& part, const Callable<void()>& meanwhile) {
  std::vector<Tensor> lists;
  batch_.each(part, [&](const std::vector<Tensor>& examples, bool last) {
    lists = compiled_part_(examples);
    if (!last) return add_part(std::move(lists));
    if (meanwhile) meanwhile();
  });
  std::vector<float> rest = sum_of_parts(lists.size() - 1, floats_of(lists.back()));
  lists.pop_back();
  for (size_t b = 0; b < lists.size(); ++b) send(b, sum_of_parts(b, floats_of(std::exchange(lists[b], Tensor()))));
  take_sums();
  return rest;
}

std::vector<float> ShardedStep::stream_gradients(const std::vector<Tensor>& part, const Callable<void()>& meanwhile) {
  std::vector<float> rest;
  batch_.each(part, [&](const std::vector<Tensor>& examples, bool last) {
    std::vector<float> values = floats_of(stream_part(examples, last, meanwhile));
    if (!last) return add_list(layout().buckets().size(), std::move(values));
    rest = sum_of_parts(layout().buckets().size(), std::move(values));
  });
  take_sums();
  return rest;
}

// Gives the rest.
Tensor ShardedStep::stream_part(const std::vector<Tensor>& examples, bool last, const Callable<void()>& meanwhile) {
  const ParametersScope scope(parameters(), ParametersScope::Use::training);
  const HandOverScope streaming([&](size_t place, const Tensor& list) {
    if (place == 0 && last && meanwhile) meanwhile();
    const size_t bucket = layout().buckets().size() - 1 - place;
    if (!last) return add_list(bucket, floats_of(list));
    send(bucket, sum_of_parts(bucket, floats_of(list)));
  });
  return compiled_part_(examples).back();
}

void ShardedStep::add_list(size_t list, std::vector<float> values) {
  sums_.resize(layout().buckets().size() + 1);
  sums_[list].add(std::move(values));
}

void ShardedStep::add_part(std::vector<Tensor> lists) {
  for (size_t l = 0; l < lists.size(); ++l) add_list(l, floats_of(std::exchange(lists[l], Tensor())));
}

std::vector<float> ShardedStep::sum_of_parts(size_t list, std::vector<float> last) {
  if (!sums_.empty()) sums_[list].finish(last);
  return last;
}

// Of all ranks' shards.
float ShardedStep::norm_of_own() {
  ExactSquares own(batch_.clip_value()), all;
  own.add(std::span(own_).first(static_cast<size_t>(layout().elements_of(replicas_.owner()))));
  all.add_numbers(replicas_.gather_of_owners(own.numbers()));
  return all.root();
}

Tensor ShardedStep::norm_of(const Tensor& squares) {
  return batch_.wanted() ? Tensor::host_scalar([this] { return norm_; }, &device_) : sqrt(squares);
}

// Two buckets, or more of a small model, whose latency is what counts.
bool ShardedStep::enough_under_way() const {
  constexpr size_t little = (4 << 20) / sizeof(float);
  size_t elements = 0;
  for (const UnderWay& bucket : under_way_) elements += bucket.values.size();
  return under_way_.size() >= 2 && elements >= little;
}

ShardedStep::UnderWay& ShardedStep::put_under_way(size_t bucket, std::vector<float> values) {
  return under_way_.emplace_back(UnderWay{.bucket = bucket, .values = std::move(values), .arrival = {}});
}

// While buckets are under way the next is read.
void ShardedStep::send(size_t bucket, std::vector<float> values) {
  while (enough_under_way()) take_sum();
  UnderWay& next = put_under_way(bucket, std::move(values));
  next.arrival = replicas_.reduce_parts(next.values, layout().buckets()[bucket].sizes);
}

void ShardedStep::take_sum() {
  UnderWay& first = under_way_.front();
  replicas_.wait(first.arrival);
  const ShardLayout::Bucket& bucket = layout().buckets()[first.bucket];
  const std::span<float> mine = std::span(first.values)
                                    .subspan(static_cast<size_t>(bucket.begin_of(replicas_.owner())),
                                             static_cast<size_t>(bucket.sizes[static_cast<size_t>(replicas_.owner())]));
  replicas_.sum_copies(mine);
  std::ranges::copy(mine, own_.begin() + begin_in_own(first.bucket));
  under_way_.pop_front();
}

void ShardedStep::take_sums() {
  while (!under_way_.empty()) take_sum();
}

int64_t ShardedStep::begin_in_own(size_t bucket) const {
  int64_t at = 0;
  for (size_t b = 0; b < bucket; ++b) at += layout().buckets()[b].sizes[static_cast<size_t>(replicas_.owner())];
  return at;
}

// With the rest go squares and wishes.
Wishes ShardedStep::average_rest(std::vector<float>& rest, const Wishes& mine) {
  const auto owned = static_cast<size_t>(layout().elements_of(replicas_.owner()));
  const bool in_parts = batch_.wanted();
  if (in_parts && optimizers_.takes_norm()) norm_ = norm_of_own();
  // Of each element once.
  const bool counts = optimizers_.takes_norm() && !in_parts && replicas_.first_owners();
  rest.push_back(counts ? squares_of({own_.data(), owned}, optimizers_.clip_value()) : 0);
  mine.append_to(rest);
  replicas_.sum(rest);
  return Wishes::take_from(rest);
}

// A bucket's list, in which the rank's own part is filled in.
std::vector<float> ShardedStep::bucket_of(size_t bucket) const {
  const std::vector<ShardLayout::Bucket>& buckets = layout().buckets();
  const int owner = replicas_.owner();
  std::vector<float> values(static_cast<size_t>(buckets[bucket].elements()));
  const auto own = own_.begin() + begin_in_own(bucket);
  std::copy(own, own + buckets[bucket].sizes[static_cast<size_t>(owner)],
            values.begin() + buckets[bucket].begin_of(owner));
  return values;
}

// While buckets are under way those before go to the device.
void ShardedStep::gather() {
  for (size_t b = 0; b < layout().buckets().size(); ++b) {
    while (enough_under_way()) take_parameters();
    UnderWay& next = put_under_way(b, bucket_of(b));
    next.arrival = replicas_.gather_parts(next.values, layout().buckets()[b].sizes);
  }
  while (!under_way_.empty()) take_parameters();
}

void ShardedStep::take_parameters() {
  const UnderWay& first = under_way_.front();
  replicas_.wait(first.arrival);
  compiled_gathered_[first.bucket](uploaded(first.values, device_));
  eval_pending();
  under_way_.pop_front();
}

}  // namespace heddle::train
