#include "heddle/train/model_parallel/mesh_step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/memory/memory_budget.h"
#include "heddle/train/flat_list.h"
#include "heddle/train/optimizers.h"

namespace heddle::train {

MeshStep::MeshStep(PartedModel& model, const Optimizers& optimizers, const Config& config, SharedStep::Parts parts)
    : model_(model),
      parts_(std::move(parts)),
      weight_(model.replicas().share_of(config.training.batch)),
      takes_norm_(optimizers.takes_norm()),
      clip_value_(optimizers.clip_value()),
      memory_budget_(static_cast<uint64_t>(config.training.memory_budget)),
      compiled_update_(
          compile([this](const Tensor& list) { record_update(list); }, {.name = "training step, update"})) {}

Wishes MeshStep::submit(const std::vector<Tensor>& batch, const Wishes& mine, const Callable<void()>& meanwhile) {
  std::vector<float> list = gradients_of(batch);
  if (meanwhile) meanwhile();
  add_over_data(list);
  add_over_positions(list);
  add_tied(list);
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
    const Tensor gradient = parameters[i].grad();
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

void MeshStep::add_over_data(std::vector<float>& list) {
  if (model_.data().size() == 1) return;
  for (float& value : list) value *= static_cast<float>(weight_);
  const Shape shape{static_cast<int64_t>(list.size())};
  model_.replicas().wait(model_.data().all_reduce(list.data(), DType::f32, shape));
}

// Of what ranks along tp share each has the gradients of its own positions.
void MeshStep::add_over_positions(std::vector<float>& list) {
  std::vector<float> shared;
  for (const Place& place : places_) {
    const auto first = list.begin() + static_cast<std::ptrdiff_t>(place.begin);
    if (model_.is_of_own_positions(place.parameter))
      shared.insert(shared.end(), first, first + static_cast<std::ptrdiff_t>(place.count));
  }
  if (shared.empty()) return;
  const Shape shape{static_cast<int64_t>(shared.size())};
  model_.replicas().wait(model_.tensor().all_reduce(shared.data(), DType::f32, shape));
  auto next = shared.begin();
  for (const Place& place : places_) {
    if (!model_.is_of_own_positions(place.parameter)) continue;
    const auto end = next + static_cast<std::ptrdiff_t>(place.count);
    std::copy(next, end, list.begin() + static_cast<std::ptrdiff_t>(place.begin));
    next = end;
  }
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

double MeshStep::norm_of(const std::vector<float>& list) {
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
