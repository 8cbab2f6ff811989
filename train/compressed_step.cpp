#include "heddle/train/compressed_step.h"

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {

CompressedStep::CompressedStep(nn::Module& model, const Config& config, DeviceContext& device, Replicas& replicas,
                               SharedStep::Parts parts)
    : model_(model),
      device_(device),
      replicas_(replicas),
      parts_(std::move(parts)),
      weight_(replicas.share_of(config.training.batch)),
      compression_(make_compression(config, replicas.size(), device)),
      compiled_part_(compile(
          [this](const Tensors& part) { return record_part(part); },
          {.name = "training step, gradients", .memory_budget = static_cast<uint64_t>(config.training.memory_budget)})),
      compiled_update_(compile([this](const Tensors& brought, int64_t keeping) { record_update(brought, keeping); },
                               {.name = "training step, update"})) {
  for (size_t round = 1; round < compression_->routes().size(); ++round) {
    const auto record = [this, round](const Tensors& brought) {
      const NoGradScope no_grad;
      return compression_->send(round, brought);
    };
    compiled_rounds_.emplace_back(compile(record, {.name = "training step, compression"}));
  }
}

// Parameters with a gradient; of every update the same.
void CompressedStep::divide_gradients() {
  std::vector<size_t> taken, others;
  const Tensors parameters = model_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].grad().defined()) continue;
    (compression_->takes(parameters[i].shape()) ? taken : others).push_back(i);
  }
  if (taken_.empty() && others_.empty()) {
    if (taken.empty())
      throw ValueError("[train] --compress: no gradient of this model is a matrix large enough for two factors");
    taken_ = taken;
    others_ = others;
  }
  if (taken != taken_ || others != others_)
    throw ValueError("[train] other parameters have gradients than in the first update: ranks cannot share them");
}

CompressedStep::Tensors CompressedStep::record_part(const Tensors& part) {
  const Tensors scalars = parts_.gradients(part);
  scalars_ = scalars.size();
  const NoGradScope no_grad;
  divide_gradients();
  const Tensors parameters = model_.parameters();
  Tensors gradients;
  for (const size_t i : taken_)
    gradients.push_back(reshape(weighted(parameters[i].grad(), weight_), parameters[i].shape()));
  Tensors lists = rest_of(scalars);
  const Tensors first = compression_->send(0, gradients);
  lists.insert(lists.end(), first.begin(), first.end());
  parts_.zero_grad();
  return lists;
}

CompressedStep::Tensors CompressedStep::rest_of(const Tensors& scalars) const {
  const Tensors parameters = model_.parameters();
  Tensors rest;
  for (const size_t i : others_) rest.push_back(weighted(parameters[i].grad(), weight_));
  append_rest(rest, model_, scalars, weight_);
  return {concat(rest, 0)};
}

// What came back stands behind the rest.
void CompressedStep::record_update(const Tensors& brought, int64_t keeping) {
  Tensors scalars;
  {
    const NoGradScope no_grad;
    const Tensors parameters = model_.parameters();
    ListReader rest(brought.front());
    for (const size_t i : others_) {
      Tensor parameter = parameters[i];
      parameter.set_grad(rest.next(parameter.shape(), parameter.dtype()));
    }
    scalars = read_rest(rest, model_, scalars_);
    const Tensors sums = compression_->sums({brought.begin() + 1, brought.end()});
    for (size_t t = 0; t < taken_.size(); ++t) {
      Tensor parameter = parameters[taken_[t]];
      parameter.set_grad(sums[t].to(parameter.dtype()));
    }
  }
  parts_.update(scalars, keeping, {});
}

Wishes CompressedStep::submit(const Tensors& part, int64_t keeping, const Wishes& mine,
                              const Callable<void()>& meanwhile) {
  if (replicas_.mixed())
    throw ValueError("[train] --compress: the devices of the ranks differ, and round differently; leave it out");
  Tensors lists = compiled_part_(part);
  if (meanwhile) meanwhile();
  std::vector<float> rest = floats_of(lists.front());
  mine.append_to(rest);
  const distributed::Ticket rest_sum = replicas_.begin_sum(rest);
  const std::vector<Route> routes = compression_->routes();
  Tensors brought = exchanged(routes.front(), {lists.begin() + 1, lists.end()});
  for (size_t round = 1; round < routes.size(); ++round)
    brought = exchanged(routes[round], compiled_rounds_[round - 1](brought));
  replicas_.wait(rest_sum);
  const Wishes all = Wishes::take_from(rest);
  brought.insert(brought.begin(), uploaded(rest, device_));
  compiled_update_(brought, keeping);
  eval_pending();
  return all;
}

CompressedStep::Tensors CompressedStep::exchanged(Route route, const Tensors& lists) {
  Tensors brought;
  for (const Tensor& list : lists) brought.push_back(exchanged(route, list));
  return brought;
}

Tensor CompressedStep::exchanged(Route route, const Tensor& list) {
  std::vector<uint8_t> mine = list.to_bytes();
  const DType dtype = list.dtype();
  if (route == Route::sum) {
    replicas_.wait(replicas_.all().all_reduce(mine.data(), dtype, list.shape()));
    return Tensor::from_bytes(mine.data(), mine.size() / size_of(dtype), dtype, list.shape(), &device_);
  }
  const bool parts = route == Route::swap;
  const Shape shape = parts ? list.shape() : Shape{replicas_.size(), list.numel()};
  const Shape each{shape.numel() / replicas_.size()};
  std::vector<uint8_t> all(static_cast<size_t>(shape.numel()) * size_of(dtype));
  replicas_.wait(parts ? replicas_.all().all_to_all(mine.data(), all.data(), dtype, each)
                       : replicas_.all().all_gather(mine.data(), all.data(), dtype, each));
  return Tensor::from_bytes(all.data(), all.size() / size_of(dtype), dtype, shape, &device_);
}

}  // namespace heddle::train
