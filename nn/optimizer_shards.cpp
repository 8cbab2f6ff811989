// Optimizers that keep the states of some elements only.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/trace.h"
#include "heddle/nn/optimizer.h"

namespace heddle::nn {

Shape Optimizer::shape_of(const Slot& slot) {
  const Shape& whole = slot.parameter.shape();
  if (!slot.shard) return whole;
  const int64_t count = slot.shard->end - slot.shard->begin;
  return count == whole.numel() ? whole : Shape{count};
}

Tensor Optimizer::elements_of(const Slot& slot) {
  const int64_t count = slot.parameter.numel();
  if (slot.shard->end - slot.shard->begin == count) return slot.parameter;
  return slice(reshape(slot.parameter, Shape{count}), 0, {.start = slot.shard->begin, .stop = slot.shard->end});
}

Shard Optimizer::checked(const Shard& shard) const {
  const int64_t count = shard.parameter < parameters_.size() ? parameters_[shard.parameter].numel() : 0;
  if (shard.begin < 0 || shard.begin >= shard.end || shard.end > count)
    throw ValueError(fmt::format("[{}] elements {} to {} of parameter {}, which has {}, are no shard", name_,
                                 shard.begin, shard.end, shard.parameter, count));
  if (!is_elementwise() && shard.end - shard.begin != count)
    throw ValueError(fmt::format("[{}] elements {} to {} of parameter {}, which has {}: it takes whole parameters",
                                 name_, shard.begin, shard.end, shard.parameter, count));
  return shard;
}

void Optimizer::keep_shards(const std::vector<Shard>& shards) {
  if (keeps_shards_ || std::ranges::any_of(slots_, [](const Slot& slot) { return slot.steps > 0; }))
    throw ValueError(fmt::format("[{}] shards are chosen once, before the first update", name_));
  std::vector<Slot> slots;
  for (const Shard& shard : shards) {
    const Slot& whole = slots_.at(checked(shard).parameter);
    slots.push_back({.parameter = whole.parameter, .group = whole.group, .shard = shard, .tensors = {}});
  }
  slots_ = std::move(slots);
  shards_ = shards;
  keeps_shards_ = true;
  trace::host_state_changed();
}

std::vector<Tensor> Optimizer::update_shards(const std::vector<Tensor>& gradients, const Tensor& norm, Caller caller) {
  const CallerScope scope(caller);
  const NoGradScope no_grad;
  const AutocastScope autocast = AutocastScope::off();
  const size_t count = slots_.size();
  const bool with_elements = count > 0 && gradients.size() == 2 * count;
  if (!keeps_shards_ || (gradients.size() != count && !with_elements))
    throw ValueError(fmt::format("[{}] {} gradients for {} shards", name_, gradients.size(), shards_.size()));
  std::vector<Slot*> slots;
  for (size_t i = 0; i < count; ++i) {
    if (gradients[i].defined()) slots.push_back(&slots_[i]);
  }
  make_states(slots);
  norm_ = Tensor();
  if (clip_norm_ || loss_scale_) {
    if (!norm.defined()) throw ValueError(fmt::format("[{}] it needs the norm of all gradients", name_));
    take_norm(norm);
  }
  count_step(slots);
  std::vector<Tensor> updated(count);
  for (Slot* slot : slots) {
    const auto place = static_cast<size_t>(slot - slots_.data());
    const Tensor now = with_elements ? reshape(gradients[count + place], shape_of(*slot)) : elements_of(*slot);
    record_update(*slot, now, reshape(gradients[place], now.shape()));
    updated[place] = std::exchange(slot->updated, {});
  }
  end_update();
  return updated;
}

}  // namespace heddle::nn
