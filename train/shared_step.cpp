#include "heddle/train/shared_step.h"

#include <utility>

#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {

SharedStep::SharedStep(nn::Module& model, const Config& config, DeviceContext& device, Replicas& replicas, Parts parts)
    : device_(device),
      replicas_(replicas),
      parts_(std::move(parts)),
      shared_(model, replicas.share_of(config.training.batch), device),
      compiled_part_(compile([this](const std::vector<Tensor>& part) { record_part(part); },
                             {.name = "training step, gradients",
                              .memory_budget = static_cast<uint64_t>(config.training.memory_budget),
                              .ready = [this](size_t list, const Event& end) { ready_[list] = end; }})),
      compiled_update_(compile([this](int64_t keeping) { parts_.update(shared_.unpack(), keeping); },
                               {.name = "training step, update"})),
      compiled_weights_(compile([this] { return shared_.pack_weights(); }, {.name = "training step, weights"})),
      compiled_follow_(compile([this](const Tensor& weights) { shared_.unpack_weights(weights); },
                               {.name = "training step, weights of the first rank"})) {}

void SharedStep::record_part(const std::vector<Tensor>& part) {
  shared_.pack(parts_.gradients(part));
  parts_.zero_grad();
  ready_.resize(shared_.lists().size());
}

Wishes SharedStep::submit(const std::vector<Tensor>& part, int64_t keeping, const Wishes& mine,
                          const Callable<void()>& meanwhile) {
  ready_.assign(ready_.size(), std::nullopt);
  compiled_part_(part);
  if (meanwhile) meanwhile();
  const Wishes all = exchange(mine);
  compiled_update_(keeping);
  eval_pending();
  if (replicas_.mixed()) follow_first();
  return all;
}

// Each list goes when it is computed; the host has nothing else to do.
Wishes SharedStep::exchange(const Wishes& mine) {
  const std::vector<Tensor>& lists = shared_.lists();
  const Event end = device_.event();
  while (on_host_.size() < lists.size()) on_host_.emplace_back(lists[on_host_.size()]);
  std::vector<distributed::Ticket> sums;
  std::span<float> spare;
  for (size_t l = 0; l < lists.size(); ++l) {
    const std::span<float> values = on_host_[l].take(ready_[l].value_or(end));
    if (l + 1 == lists.size()) mine.write(spare = values.last(SharedGradients::spare));
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
  for (HostList& list : on_host_) list.give_back();
  return all;
}

void SharedStep::follow_first() {
  std::vector<float> values = floats_of(compiled_weights_());
  replicas_.take_first(values);
  compiled_follow_(uploaded(values, device_));
  eval_pending();
}

}  // namespace heddle::train
