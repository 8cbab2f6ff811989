#include "heddle/train/sharded_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

// Of stage 2: large enough that a link's latency does not count, small beside a model that is worth sharding.
constexpr int64_t bucket_bytes = 16 << 20;

ShardLayout layout_of(const nn::Module& model, const Optimizers& optimizers, const Config& config,
                      const Replicas& replicas) {
  if (config.log.histograms_every > 0)
    throw ValueError("[train] --histograms-every with --sharding: no rank has all gradients");
  const int64_t bucket = config.training.sharding == "zero2" ? bucket_bytes / static_cast<int64_t>(sizeof(float)) : 0;
  return {elements_to_own(model),
          {.ranks = replicas.size(), .elementwise = optimizers.is_elementwise(), .bucket_elements = bucket}};
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
  if (config.training.sharding == "zero3")
    throw ValueError(
        "[train] --sharding zero3 does not exist yet: every rank has all parameters; zero2 shards gradients and the "
        "optimizer's states");
  return config.training.sharding != "none" && replicas != nullptr && !replicas->alone();
}

ShardedStep::ShardedStep(nn::Module& model, Optimizers& optimizers, const Config& config, DeviceContext& device,
                         Replicas& replicas, Parts parts)
    : optimizers_(optimizers),
      device_(device),
      replicas_(replicas),
      parts_(std::move(parts)),
      shared_(model, layout_of(model, optimizers, config, replicas), replicas.rank(),
              replicas.share_of(config.training.batch)),
      own_(static_cast<size_t>(std::max(layout().elements_of(replicas.rank()), int64_t{1}))),
      compiled_part_(compile(
          [this](const std::vector<Tensor>& part) { return record_part(part); },
          {.name = "training step, gradients", .memory_budget = static_cast<uint64_t>(config.training.memory_budget)})),
      compiled_update_(compile([this](const Tensor& own, const Tensor& rest) { return record_update(own, rest); },
                               {.name = "training step, update of shards"})) {
  optimizers_.keep_shards(shared_.shards());
  const size_t buckets = layout().buckets().size();
  for (size_t b = 0; b < buckets; ++b) {
    const auto record = [this, b, last = b + 1 == buckets](const Tensor& list) {
      shared_.unpack_bucket(b, list);
      if (last) parts_.gathered();
    };
    compiled_gathered_.emplace_back(compile(record, {.name = "training step, parameters of their owners"}));
  }
}

std::vector<Tensor> ShardedStep::record_part(const std::vector<Tensor>& part) {
  std::vector<Tensor> lists = shared_.pack(parts_.gradients(part));
  optimizers_.zero_grad();
  return lists;
}

// Behind the averages stands the sum of squares.
Tensor ShardedStep::record_update(const Tensor& own, const Tensor& rest) {
  std::vector<Tensor> averages = shared_.unpack_rest(rest, 1);
  const Tensor squares = averages.back();
  averages.pop_back();
  parts_.look(averages);
  const std::vector<Tensor> updated =
      optimizers_.update_shards(shared_.gradients(own), optimizers_.takes_norm() ? sqrt(squares) : Tensor());
  parts_.updated();
  return shared_.pack_shards(updated);
}

Wishes ShardedStep::submit(const std::vector<Tensor>& part, const Wishes& mine, const Callable<void()>& meanwhile) {
  std::vector<Tensor> lists = compiled_part_(part);
  if (meanwhile) meanwhile();
  std::vector<float> rest = floats_of(lists.back());
  lists.pop_back();
  reduce(std::move(lists));
  const Wishes all = average_rest(rest, mine);
  own_ = floats_of(compiled_update_(uploaded(own_, device_), uploaded(rest, device_)));
  gather();
  return all;
}

// While a bucket is under way the next is read.
void ShardedStep::reduce(std::vector<Tensor> lists) {
  const std::vector<ShardLayout::Bucket>& buckets = layout().buckets();
  size_t at = 0;  // in own_
  const auto take_own = [&](size_t b, const std::vector<float>& values) {
    const auto begin = values.begin() + buckets[b].begin_of(replicas_.rank());
    const int64_t count = buckets[b].sizes[static_cast<size_t>(replicas_.rank())];
    std::copy(begin, begin + count, own_.begin() + static_cast<std::ptrdiff_t>(at));
    at += static_cast<size_t>(count);
  };
  std::vector<float> before;
  distributed::Ticket sums;
  for (size_t b = 0; b < buckets.size(); ++b) {
    std::vector<float> values = floats_of(std::exchange(lists[b], Tensor()));
    distributed::Ticket next = replicas_.reduce_parts(values, buckets[b].sizes);
    replicas_.wait(sums);
    if (b > 0) take_own(b - 1, before);
    before = std::move(values);
    sums = std::move(next);
  }
  replicas_.wait(sums);
  if (!buckets.empty()) take_own(buckets.size() - 1, before);
}

// With the rest go squares and wishes.
Wishes ShardedStep::average_rest(std::vector<float>& rest, const Wishes& mine) {
  const auto owned = static_cast<size_t>(layout().elements_of(replicas_.rank()));
  rest.push_back(optimizers_.takes_norm() ? squares_of({own_.data(), owned}, optimizers_.clip_value()) : 0);
  const size_t averaged = rest.size();
  rest.resize(averaged + Wishes::count);
  mine.write(std::span(rest).subspan(averaged));
  replicas_.sum(rest);
  const Wishes all = Wishes::read(std::span(rest).subspan(averaged));
  rest.resize(averaged);
  return all;
}

// A bucket's list, in which the rank's own part is filled in.
std::vector<float> ShardedStep::bucket_of(size_t bucket) const {
  const std::vector<ShardLayout::Bucket>& buckets = layout().buckets();
  const auto rank = static_cast<size_t>(replicas_.rank());
  int64_t at = 0;
  for (size_t b = 0; b < bucket; ++b) at += buckets[b].sizes[rank];
  std::vector<float> values(static_cast<size_t>(buckets[bucket].elements()));
  const auto own = own_.begin() + at;
  std::copy(own, own + buckets[bucket].sizes[rank], values.begin() + buckets[bucket].begin_of(replicas_.rank()));
  return values;
}

// While a bucket is under way the one before goes to the device.
void ShardedStep::gather() {
  const size_t buckets = layout().buckets().size();
  std::vector<float> values;
  distributed::Ticket arrived;
  for (size_t b = 0; b <= buckets; ++b) {
    std::vector<float> next;
    distributed::Ticket under_way;
    if (b < buckets) {
      next = bucket_of(b);
      under_way = replicas_.gather_parts(next, layout().buckets()[b].sizes);
    }
    replicas_.wait(arrived);
    if (b > 0) {
      compiled_gathered_[b - 1](uploaded(values, device_));
      eval_pending();
    }
    values = std::move(next);
    arrived = std::move(under_way);
  }
}

}  // namespace heddle::train
