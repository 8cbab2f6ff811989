#include "heddle/nn/loss_scale.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

const LossScaleOptions& checked(const LossScaleOptions& o) {
  const auto check = [](const char* name, double value, bool good, const char* rule) {
    if (!good || !std::isfinite(value))
      throw ValueError(fmt::format("[LossScale] {} is {}; it must be {}", name, value, rule));
  };
  check("start", o.start, o.start > 0, "positive and finite");
  check("growth", o.growth, o.growth >= 1, "at least 1 and finite");
  check("backoff", o.backoff, o.backoff > 0 && o.backoff <= 1, "in (0, 1]");
  checked_size("LossScale", "interval", o.interval);  // good updates are counted in 32 bits
  return o;
}

template <class T>
Tensor scalar(T value, DeviceContext* device) {
  return Tensor::from_vector(std::vector<T>{value}, Shape{}, device);
}

}  // namespace

LossScale::LossScale(const LossScaleOptions& options)
    : options_(checked(options)),
      value_(scalar(static_cast<float>(options.start), options.device)),
      good_(scalar(0, options.device)),
      skipped_(scalar(0, options.device)),
      grown_(scalar(0, options.device)) {}

Tensor LossScale::scale(const Tensor& loss, Caller caller) const {
  const CallerScope scope(caller);
  return loss * value_;
}

Tensor LossScale::inverse(Caller caller) const {
  const CallerScope scope(caller);
  return reciprocal(value_);
}

void LossScale::update(const Tensor& finite, Caller caller) {
  const CallerScope scope(caller);
  const NoGradScope no_grad;
  const Tensor good = good_ + 1, enough = finite && good == options_.interval;
  const Tensor larger = value_ * options_.growth;
  const Tensor grows = enough && larger <= static_cast<double>(std::numeric_limits<float>::max());
  const Tensor value = where(finite, where(grows, larger, value_), value_ * options_.backoff);
  good_.assign(where(finite && !enough, good, 0));
  skipped_.assign(where(finite, skipped_, skipped_ + 1));
  grown_.assign(where(grows, grown_ + 1, grown_));
  value_.assign(value);
}

StateDict LossScale::state_dict() const {
  return {{"value", value_}, {"good", good_}, {"skipped", skipped_}, {"grown", grown_}};
}

void LossScale::load_state_dict(const StateDict& state) {
  StateDict own = state_dict();
  for (const auto& [name, tensor] : state) {
    const auto found = own.find(name);
    if (found == own.end())
      throw ValueError(
          fmt::format("[LossScale] the state has an entry '{}'; it must have good, grown, skipped and value", name));
    if (tensor.numel() != 1)
      throw ShapeError(fmt::format("[LossScale] state '{}' is {}; it must be one number", name, tensor.shape().str()));
  }
  if (state.size() != own.size())
    throw ValueError(
        fmt::format("[LossScale] the state has {} entries; it must have good, grown, skipped and value", state.size()));
  const double scale = state.at("value").item();
  if (!(scale > 0) || std::isinf(scale))
    throw ValueError(fmt::format("[LossScale] the state's value is {}; it must be positive and finite", scale));
  for (auto& [name, tensor] : own) {
    const Tensor& given = state.at(name);
    tensor.assign(reshape(given.detach().to(tensor.device()), Shape{}).to(tensor.dtype()));
  }
}

}  // namespace heddle::nn
