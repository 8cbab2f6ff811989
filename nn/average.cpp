#include "heddle/nn/average.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <string>

#include "heddle/core/base/error.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/trace.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

DType average_dtype(const Tensor& parameter) { return parameter.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// A copy in memory of its own.
Tensor copied(const Tensor& x, DType dtype) {
  const Tensor wide = x.detach().to(dtype);
  const std::vector<uint8_t> bytes = wide.to_bytes();
  return Tensor::from_bytes(bytes.data(), static_cast<size_t>(wide.numel()), dtype, wide.shape(), &x.device());
}

}  // namespace

ExponentialAverage::ExponentialAverage(std::vector<Tensor> parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {
  if (!(decay >= 0 && decay < 1))
    throw ValueError(fmt::format("[ExponentialAverage] the decay is {}; it must be in [0, 1)", decay));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    if (!p.defined() || !p.is_leaf() || !is_float(p.dtype()))
      throw ValueError(fmt::format("[ExponentialAverage] parameter {} is not a floating leaf tensor", i));
    averages_.push_back(copied(p, average_dtype(p)));
  }
}

void ExponentialAverage::update(Caller caller) {
  const CallerScope scope(caller);
  const NoGradScope no_grad;
  const auto count = [this] { ++updates_; };
  trace::effect(count);
  count();
  std::map<DeviceContext*, Tensor> takes;
  for (size_t i = 0; i < averages_.size(); ++i) {
    Tensor& average = averages_[i];
    Tensor& take = takes[&average.device()];
    const auto share = [this] {
      const auto n = static_cast<double>(updates_);
      return static_cast<float>(1 - std::min(decay_, (1 + n) / (10 + n)));
    };
    if (!take.defined()) take = Tensor::host_scalar(share, &average.device());
    average.assign(average +
                   expand(take, average.shape()).to(average.dtype()) * (parameters_[i].to(average.dtype()) - average));
  }
}

StateDict ExponentialAverage::state_dict() const {
  StateDict all;
  for (size_t i = 0; i < averages_.size(); ++i) all.emplace(std::to_string(i), averages_[i]);
  all.emplace("updates", Tensor::from_host(std::span(&updates_, 1), Shape{}));
  return all;
}

void ExponentialAverage::load_state_dict(const StateDict& state) {
  const auto updates = state.find("updates");
  if (updates == state.end() || state.size() != averages_.size() + 1) {
    throw ValueError(fmt::format(
        "[ExponentialAverage] the state has {} tensors, expected {} and 'updates'; likely saved from another model",
        state.size(), averages_.size()));
  }
  for (size_t i = 0; i < averages_.size(); ++i) {
    const auto found = state.find(std::to_string(i));
    if (found == state.end())
      throw ValueError(
          fmt::format("[ExponentialAverage] the state has no tensor '{}'; likely saved from another model", i));
    if (found->second.shape() != averages_[i].shape()) {
      throw ShapeError(fmt::format("[ExponentialAverage] state {} has shape {} but the parameter is {}", i,
                                   found->second.shape().str(), averages_[i].shape().str()));
    }
  }
  updates_ = count_of_updates("ExponentialAverage", updates->second);
  for (size_t i = 0; i < averages_.size(); ++i) {
    averages_[i] = copied(state.at(std::to_string(i)).to(averages_[i].device()), averages_[i].dtype());
  }
  trace::host_state_changed();
}

ExponentialAverage::Scope::Scope(const ExponentialAverage& average) : parameters_(average.parameters_) {
  const NoGradScope no_grad;
  std::vector<NodePtr> nodes;
  for (const Tensor& parameter : parameters_) {
    before_.push_back(copied(parameter, parameter.dtype()));
    nodes.push_back(parameter.node());
  }
  try {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].assign(average.averages_[i].to(parameters_[i].dtype()));
    }
    eval_pending();
  } catch (...) {
    // What was recorded is forgotten, and what a device has written all the same is written again.
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!nodes[i]->overwritten) parameters_[i].impl()->set_node(nodes[i]);
      parameters_[i].assign(before_[i]);
    }
    throw;
  }
}

void ExponentialAverage::Scope::end() {
  if (ended_) return;
  const NoGradScope no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].assign(before_[i]);
  eval_pending();
  ended_ = true;
}

ExponentialAverage::Scope::~Scope() {
  try {
    end();
  } catch (const DeviceLost&) {  // it has lost both
  } catch (const std::exception& error) {
    print_error("heddle: warning: the parameters still hold their averages: {}\n", error.what());
  }
}

}  // namespace heddle::nn
