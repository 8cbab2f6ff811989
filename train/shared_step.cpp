#include "heddle/train/shared_step.h"

#include <array>
#include <utility>

#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/exact_squares.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {

SharedStep::SharedStep(nn::Module& model, const Config& config, DeviceContext& device, Replicas& replicas,
                       BatchParts& batch, Parts parts)
    : device_(device),
      replicas_(replicas),
      batch_(batch),
      parts_(std::move(parts)),
      shared_(model, batch.weight(), device, replicas, batch.wanted(), batch.count()),
      compiled_part_(compile([this](const std::vector<Tensor>& part, size_t lot) { record_part(part, lot); },
                             {.name = "training step, gradients",
                              .memory_budget = static_cast<uint64_t>(config.training.memory_budget),
                              .ready = [this](size_t list, const Event& end) { ready_[list] = end; }})),
      compiled_add_(compile([this](size_t lot, size_t count) { shared_.add(lot, count); },
                            {.name = "training step, sums of parts",
                             .ready = [this](size_t list, const Event& end) { ready_[list] = end; }})),
      compiled_update_(
          compile([this](int64_t keeping, size_t lot) { parts_.update(shared_.unpack(lot), keeping, known_norm()); },
                  {.name = "training step, update"})),
      compiled_weights_(compile([this] { return shared_.pack_weights(); }, {.name = "training step, weights"})),
      compiled_follow_(compile([this](const Tensor& weights) { shared_.unpack_weights(weights); },
                               {.name = "training step, weights of the first rank"})) {}

void SharedStep::record_part(const std::vector<Tensor>& part, size_t lot) {
  const std::vector<Tensor> buffers = batch_.buffers();
  shared_.pack(parts_.gradients(part), lot);
  batch_.restore(buffers);
  parts_.zero_grad();
  ready_.resize(shared_.lists().size());
}

Wishes SharedStep::submit(const std::vector<Tensor>& part, int64_t keeping, const Wishes& mine,
                          const Callable<void()>& meanwhile) {
  Wishes all;
  batch_.each(part, [&, number = size_t{0}](const std::vector<Tensor>& examples, bool last) mutable {
    ready_.assign(ready_.size(), std::nullopt);
    take_part(examples, number++);
    if (!last) return;
    if (meanwhile) meanwhile();
    all = shared_.neighbours() != nullptr ? meet(mine) : exchange(mine);
  });
  compiled_update_(keeping, lot_);
  eval_pending();
  if (shared_.neighbours() != nullptr) lot_ = (lot_ + 1) % NeighbourLists::lots;
  if (replicas_.mixed()) follow_first();
  return all;
}

// A part's lists, and the sums that are complete with it. Nothing waits for the device.
void SharedStep::take_part(const std::vector<Tensor>& examples, size_t part) {
  if (!batch_.wanted()) return compiled_part_(examples, lot_);
  const size_t lot = SharedGradients::lot_of(part), sums = SharedGradients::sums_behind(part);
  compiled_part_(examples, lot);
  // One after the other: a graph of several may round once.
  for (size_t s = 0; s < sums; ++s) {
    ready_.assign(ready_.size(), std::nullopt);
    compiled_add_(lot - s, 1);
  }
}

// Of what was submitted; the lists are there by now.
Event SharedStep::end_of_lists() {
  const std::vector<Tensor>& lists = shared_.lists();
  while (on_host_.size() < lists.size()) on_host_.emplace_back(lists[on_host_.size()]);
  return device_.event();
}

// A host value: what its function says is asked for at each replay.
Tensor SharedStep::known_norm() {
  if (!batch_.wanted() || !batch_.takes_norm()) return {};
  return Tensor::host_scalar([this] { return norm_; }, &device_);
}

float SharedStep::norm_of(const std::vector<std::span<float>>& lists) const {
  ExactSquares squares(batch_.clip_value());
  for (size_t l = 0; l < lists.size(); ++l) squares.add(lists[l].first(shared_.gradients_in(l)));
  return squares.root();
}

// Each list goes when it is computed; the host has nothing else to do. One process alone waits for nothing but a norm.
Wishes SharedStep::exchange(const Wishes& mine) {
  const bool norm = batch_.wanted() && batch_.takes_norm();
  if (replicas_.alone() && !norm) return mine;
  const Event end = end_of_lists();
  std::vector<std::span<float>> lists;
  std::vector<distributed::Ticket> sums;
  std::span<float> spare;
  for (size_t l = 0; l < on_host_.size(); ++l) {
    const std::span<float> values = lists.emplace_back(on_host_[l].take(ready_[l].value_or(end)));
    if (l + 1 == on_host_.size()) mine.write(spare = values.last(SharedGradients::spare));
    sums.push_back(replicas_.begin_sum(values));
  }
  const HiddenTime::Time computed = std::chrono::steady_clock::now();
  std::vector<HiddenTime::Call> calls;
  for (const distributed::Ticket& sum : sums) {
    replicas_.wait(sum);
    calls.push_back({sum.times().begun, sum.times().over});
  }
  if (compiled_) hidden_.add(calls, computed);
  compiled_ = true;
  const Wishes all = Wishes::read(spare);
  if (norm) norm_ = norm_of(lists);
  for (HostList& list : on_host_) list.give_back();
  return all;
}

// The update reads both lists; wishes are the host's to add.
Wishes SharedStep::meet(const Wishes& mine) {
  NeighbourLists& lists = *shared_.neighbours();
  device_.event().wait();
  mine.write(lists.values(lot_, replicas_.rank()).last(SharedGradients::spare));
  lists.meet(lot_);
  std::array<float, SharedGradients::spare> sums{};
  for (int rank = 0; rank < replicas_.size(); ++rank) {
    const std::span<const float> wishes = lists.values(lot_, rank).last(SharedGradients::spare);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += wishes[i];
  }
  return Wishes::read(sums);
}

void SharedStep::follow_first() {
  std::vector<float> values = floats_of(compiled_weights_());
  replicas_.take_first(values);
  compiled_follow_(uploaded(values, device_));
  eval_pending();
}

}  // namespace heddle::train
