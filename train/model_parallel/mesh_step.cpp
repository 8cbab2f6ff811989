#include "heddle/train/model_parallel/mesh_step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/memory/memory_budget.h"
#include "heddle/train/exact_squares.h"
#include "heddle/train/flat_list.h"
#include "heddle/train/optimizers.h"
#include "heddle/train/part_sum.h"

namespace heddle::train {

MeshStep::MeshStep(PartedModel& model, const Optimizers& optimizers, const Config& config, BatchParts* batch,
                   SharedStep::Parts parts)
    : model_(model),
      batch_(batch),
      parts_(std::move(parts)),
      weight_(batch != nullptr ? batch->weight() : model.replicas().share_of(config.training.batch)),
      takes_norm_(optimizers.takes_norm()),
      clip_value_(optimizers.clip_value()),
      memory_budget_(static_cast<uint64_t>(config.training.memory_budget)),
      compiled_update_(
          compile([this](const Tensor& list) { record_update(list); }, {.name = "training step, update"})) {}

Wishes MeshStep::submit(const std::vector<Tensor>& batch, const Wishes& mine, const Callable<void()>& meanwhile) {
  std::vector<float> list = batch_ != nullptr ? gradients_of_parts(batch) : gradients_of(batch);
  if (meanwhile) meanwhile();
  if (model_.has_experts_in_parts()) {
    add_over_batches(list);
  } else {
    add_over_data(list);
    add_over_positions(list);
    add_tied(list);
  }
  list.push_back(takes_norm_ ? static_cast<float>(norm_of(list)) : 0.0f);
  const Wishes all = agree(mine);
  compiled_update_(uploaded(list, model_.device()));
  eval_pending();
  return all;
}

// Gradients of the parameters that have one, and what is averaged besides.
std::vector<float> MeshStep::gradients_of(const std::vector<Tensor>& batch) {
  std::optional<MemoryBudget> budget;
  if (memory_budget_ > 0) budget.emplace(memory_budget_);
  Tensor list;
  if (model_.in_stages()) {
    list = packed({model_.differentiate(batch)});
    eval({list});
  } else {
    MeshScope scope(model_.links());
    list = packed(parts_.gradients(batch));
    eval({list});
    scope.finish();
  }
  parts_.zero_grad();
  return floats_of(list);
}

Tensor MeshStep::packed(const std::vector<Tensor>& averages) {
  const NoGradScope no_grad;
  places_.clear();
  size_t at = 0;
  std::vector<Tensor> all;
  const std::vector<Tensor> parameters = model_.module().parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor gradient = model_.gradient_of(i, parameters[i]);
    if (!gradient.defined()) continue;
    const auto count = static_cast<size_t>(gradient.numel());
    places_.push_back({i, at, count});
    at += count;
    all.push_back(flat(gradient));
  }
  averages_ = averages.size();
  for (const Tensor& x : averages) all.push_back(flat(x));
  return concat(all, 0);
}

// A part's weight is a power of two: no sum rounds otherwise for it.
std::vector<float> MeshStep::gradients_of_parts(const std::vector<Tensor>& batch) {
  PartSum sum;
  std::vector<float> list;
  batch_->each(batch, [&](const std::vector<Tensor>& part, bool last) {
    list = gradients_of(part);
    for (float& value : list) value *= static_cast<float>(weight_);
    if (!last) sum.add(std::move(list));
  });
  sum.finish(list);
  return added_over_senders(list);
}

// Of gradients by rank their sums: the ranks' parts are neighbours in the tree.
std::vector<float> MeshStep::added_over_senders(const std::vector<float>& list) {
  const auto senders = static_cast<size_t>(model_.experts().size());
  std::vector<float> all;
  for (Place& place : places_) {
    const bool by_rank = model_.is_of_experts(place.parameter);
    const size_t count = by_rank ? place.count / senders : place.count;
    const auto part = [&](size_t n) { return std::span(list).subspan(place.begin + n * count, count); };
    PartSum sum;
    for (size_t n = 0; by_rank && n + 1 < senders; ++n) sum.add({part(n).begin(), part(n).end()});
    const std::span<const float> last = part(by_rank ? senders - 1 : 0);
    place = {place.parameter, all.size(), count};
    all.insert(all.end(), last.begin(), last.end());
    sum.finish(std::span(all).last(count));
  }
  all.insert(all.end(), list.end() - static_cast<std::ptrdiff_t>(averages_), list.end());
  return all;
}

// Ranks along ep are neighbours in the tree of parts, whatever the order of the axes. Losses that are no part's are
// means over all ranks already.
void MeshStep::add_over_batches(std::vector<float>& list) {
  const size_t averages = model_.is_apart() ? averages_ : 0;
  add_over(
      model_.experts(), list, [this](const Place& place) { return !model_.is_of_experts(place.parameter); }, averages);
  add_over(
      model_.data(), list, [](const Place&) { return true; }, averages);
}

void MeshStep::add_over_data(std::vector<float>& list) {
  if (model_.data().size() == 1) return;
  for (float& value : list) value *= static_cast<float>(weight_);
  const Shape shape{static_cast<int64_t>(list.size())};
  model_.replicas().wait(model_.data().all_reduce(list.data(), DType::f32, shape));
}

// Sums over ranks of some gradients and of the last so many numbers of the list, in one call.
void MeshStep::add_over(distributed::Group& ranks, std::vector<float>& list, const Which& which, size_t averages) {
  if (ranks.size() == 1) return;
  std::vector<std::span<float>> parts;
  for (const Place& place : places_) {
    if (which(place)) parts.push_back(std::span(list).subspan(place.begin, place.count));
  }
  parts.push_back(std::span(list).last(averages));
  std::vector<float> shared;
  for (const std::span<float> part : parts) shared.insert(shared.end(), part.begin(), part.end());
  if (shared.empty()) return;
  const Shape shape{static_cast<int64_t>(shared.size())};
  model_.replicas().wait(ranks.all_reduce(shared.data(), DType::f32, shape));
  auto next = shared.begin();
  for (const std::span<float> part : parts) {
    std::copy_n(next, part.size(), part.begin());
    next += static_cast<std::ptrdiff_t>(part.size());
  }
}

// Of what ranks along tp share each has the gradients of its own positions.
void MeshStep::add_over_positions(std::vector<float>& list) {
  add_over(
      model_.tensor(), list, [this](const Place& place) { return model_.is_of_own_positions(place.parameter); }, 0);
}

// The token table is on two stages, each of which has a part of its gradient.
void MeshStep::add_tied(std::vector<float>& list) {
  if (model_.tied().size() == 1) return;
  for (const Place& place : places_) {
    if (!model_.is_tied(place.parameter)) continue;
    const Shape shape{static_cast<int64_t>(place.count)};
    model_.replicas().wait(model_.tied().all_reduce(list.data() + place.begin, DType::f32, shape));
  }
}

// Without rounding, as SharedStep's under --parts: whoever has which experts.
double MeshStep::exact_norm_of(const std::vector<float>& list) {
  ExactSquares squares(clip_value_), all(clip_value_);
  for (const Place& place : places_) {
    if (model_.counts(place.parameter)) squares.add(std::span(list).subspan(place.begin, place.count));
  }
  const std::vector<int64_t> mine = squares.numbers();
  std::vector<int64_t> numbers(mine.size() * static_cast<size_t>(model_.group().size()));
  const Shape shape{static_cast<int64_t>(mine.size())};
  model_.replicas().wait(model_.group().all_gather(mine.data(), numbers.data(), DType::i64, shape));
  all.add_numbers(numbers);
  return all.root();
}

double MeshStep::norm_of(const std::vector<float>& list) {
  if (batch_ != nullptr) return exact_norm_of(list);
  double squares = 0;
  for (const Place& place : places_) {
    if (!model_.counts(place.parameter)) continue;
    for (size_t i = place.begin; i < place.begin + place.count; ++i) {
      const double value = clip_value_ > 0 ? std::clamp<double>(list[i], -clip_value_, clip_value_) : list[i];
      squares += value * value;
    }
  }
  model_.replicas().wait(model_.group().all_reduce(&squares, DType::f64, Shape()));
  return std::sqrt(squares);
}

Wishes MeshStep::agree(const Wishes& mine) {
  std::vector<float> numbers;
  mine.append_to(numbers);
  model_.replicas().sum(numbers);
  return Wishes::take_from(numbers);
}

void MeshStep::record_update(const Tensor& list) {
  std::vector<Tensor> averages;
  Tensor norm;
  {
    const NoGradScope no_grad;
    ListReader reader(list);
    const std::vector<Tensor> parameters = model_.module().parameters();
    for (const Place& place : places_) {
      Tensor parameter = parameters[place.parameter];
      parameter.set_grad(reader.next(parameter.shape(), parameter.dtype()));
    }
    for (size_t i = 0; i < averages_; ++i) averages.push_back(reader.next(Shape(), DType::f32));
    norm = reader.next(Shape(), DType::f32);
  }
  parts_.update(averages, 0, takes_norm_ ? norm : Tensor());
}

}  // namespace heddle::train
