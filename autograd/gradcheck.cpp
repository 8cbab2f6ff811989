#include "heddle/autograd/gradcheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/contract/device_info.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/philox.h"

namespace heddle {
namespace {

using Values = std::vector<std::vector<double>>;  // per input, per element

// Uniform numbers in [-1, 1), a new stream for each draw.
class Directions {
 public:
  explicit Directions(uint64_t seed) : seed_(seed) {}
  std::vector<double> draw(int64_t count) {
    const std::array<uint32_t, 4> key{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32), draws_++,
                                      0x6772636bu};
    std::vector<double> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 2.0 * philox_uniform(key, i) - 1;
    return values;
  }

 private:
  uint64_t seed_;
  uint32_t draws_ = 0;
};

// One check: the function, where it is checked, and the fixed weights that make it a scalar.
class Check {
 public:
  Check(const GradcheckFunction& f, std::span<const Tensor> inputs, const GradcheckOptions& options)
      : f_(f), options_(options), directions_(options.seed) {
    for (const Tensor& input : inputs) {
      shapes_.push_back(input.shape());
      at_.push_back(input.to_doubles());
    }
    device_ = inputs.empty() ? nullptr : &inputs[0].device();
  }

  GradcheckResult run() {
    for (int i = 0; i < options_.directions && result_.ok; ++i) {
      const Values v = direction();
      compare(
          "first", [&](const Values& x) { return loss(leaves(x)).item(); },
          [&](const std::vector<Tensor>& x) { return loss(x); }, v);
      if (options_.order < 2 || !result_.ok) continue;
      const Values w = direction();
      const auto slope = [&](const std::vector<Tensor>& x) { return along(loss(x), x, v, true); };
      compare(
          "second", [&](const Values& x) { return slope(leaves(x)).item(); }, slope, w);
    }
    return result_;
  }

 private:
  Values direction() {
    Values v;
    for (const Shape& shape : shapes_) v.push_back(directions_.draw(shape.numel()));
    return v;
  }

  std::vector<Tensor> leaves(const Values& x) const {
    std::vector<Tensor> made;
    for (size_t i = 0; i < x.size(); ++i) {
      made.push_back(Tensor::from_vector(x[i], shapes_[i], device_));
      made.back().set_requires_grad();
    }
    return made;
  }

  // sum over outputs of <u, f(x)>; u is drawn once.
  Tensor loss(const std::vector<Tensor>& x) {
    const std::vector<Tensor> outputs = f_(x);
    Tensor total = zeros(Shape{}, DType::f64, device_);
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (weights_.size() <= k) weights_.push_back(directions_.draw(outputs[k].numel()));
      total = total + sum(outputs[k] * Tensor::from_vector(weights_[k], outputs[k].shape(), device_));
    }
    return total;
  }

  // <grad y, v> as a tensor; 0 where y does not depend on x.
  Tensor along(const Tensor& y, const std::vector<Tensor>& x, const Values& v, bool create_graph) const {
    Tensor total = zeros(Shape{}, DType::f64, device_);
    if (!y.requires_grad()) return total;
    const std::vector<Tensor> gradients = grad(y, std::span<const Tensor>(x), {}, create_graph, true);
    for (size_t i = 0; i < x.size(); ++i) {
      if (gradients[i].defined()) total = total + sum(gradients[i] * Tensor::from_vector(v[i], shapes_[i], device_));
    }
    return total;
  }

  Values moved(const Values& v, double step) const {
    Values x = at_;
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t j = 0; j < x[i].size(); ++j) x[i][j] += step * v[i][j];
    }
    return x;
  }

  template <class F, class G>
  void compare(const char* order, const F& value, const G& graph, const Values& v) {
    const std::vector<Tensor> x = leaves(at_);
    const double analytic = along(graph(x), x, v, false).item();
    const double h = options_.step;
    const double numeric =
        (8 * (value(moved(v, h)) - value(moved(v, -h))) - (value(moved(v, 2 * h)) - value(moved(v, -2 * h)))) /
        (12 * h);
    const double difference = std::abs(analytic - numeric) / (1 + std::abs(numeric));
    result_.worst = std::max(result_.worst, difference);
    if (difference <= options_.tolerance) return;  // false for NaN
    result_.ok = false;
    result_.message = fmt::format("{} order: analytic {:.12g}, numeric {:.12g}, relative difference {:.3g}", order,
                                  analytic, numeric, difference);
  }

  const GradcheckFunction& f_;
  const GradcheckOptions& options_;
  Directions directions_;
  std::vector<Shape> shapes_;
  Values at_;
  Values weights_;
  DeviceContext* device_ = nullptr;
  GradcheckResult result_;
};

}  // namespace

GradcheckResult gradcheck(const GradcheckFunction& f, std::span<const Tensor> inputs, const GradcheckOptions& options) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != DType::f64 || inputs[i].device().caps().device_class != DeviceClass::reference) {
      throw ValueError(
          fmt::format("[gradcheck] input {} is {} on {}; differences need f64 tensors on the reference device", i,
                      name_of(inputs[i].dtype()), inputs[i].device().id()));
    }
  }
  return Check(f, inputs, options).run();
}

}  // namespace heddle
