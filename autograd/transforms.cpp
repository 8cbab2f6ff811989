#include "heddle/autograd/transforms.h"

#include <fmt/format.h>

#include <unordered_set>

#include "heddle/autograd/record.h"
#include "heddle/autograd/rules.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/functions/functions.h"

namespace heddle::detail {
namespace {

using autograd::GradMode;

std::string show(const Tensor& x) { return fmt::format("{} {}", x.shape().str(), name_of(x.dtype())); }

void check_fits(const std::string& who, const char* what, size_t i, const Tensor& given, const Tensor& expected) {
  if (given.shape() == expected.shape() && given.dtype() == expected.dtype()) return;
  throw GradError(fmt::format("[{}] {} {} is {}, but its tensor is {}; both must be the same", who, what, i,
                              show(given), show(expected)));
}

bool differentiable(const Tensor& x) { return x.defined() && is_float(x.dtype()); }

}  // namespace

Linearization::Linearization(std::string who, std::span<Tensor* const> places)
    : who_(std::move(who)), outer_mode_(grad_mode()) {
  for (size_t i = 0; i < places.size(); ++i) {
    Tensor& place = *places[i];
    if (differentiable(place)) place = autograd::stand_in(place);
    inputs_.push_back(place);
  }
}

bool Linearization::tracked(std::span<const Tensor> others) const {
  bool any = outside_;
  for (const Tensor& other : others) any = any || (other.defined() && other.requires_grad());
  return any;
}

void Linearization::finish(std::span<Tensor* const> places) {
  std::vector<Tensor> stand_ins;
  for (const Tensor& input : inputs_) {
    if (differentiable(input)) stand_ins.push_back(input);
  }
  for (const Tensor* place : places) outputs_.push_back(*place);
  outside_ = autograd::tracks_outside(outputs_, stand_ins);
  if (outer_mode_ && outside_) return;
  for (Tensor* place : places) {
    if (place->defined() && place->requires_grad()) *place = stop_gradient(*place);
  }
}

std::vector<Tensor> Linearization::pull(std::span<const Tensor> cotangents) const {
  if (cotangents.size() != outputs_.size()) {
    throw GradError(fmt::format("[{}] the function gave {} tensors, but there are {} cotangents", who_, outputs_.size(),
                                cotangents.size()));
  }
  std::vector<Tensor> outputs, seeds, inputs;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!cotangents[i].defined() || !differentiable(outputs_[i])) continue;
    check_fits(who_, "cotangent", i, cotangents[i], outputs_[i]);
    outputs.push_back(outputs_[i]);
    seeds.push_back(cotangents[i]);
  }
  std::unordered_set<const heddle::Node*> stops;
  for (const Tensor& input : inputs_) {
    if (!differentiable(input)) continue;
    inputs.push_back(input);
    stops.insert(input.node().get());
  }
  const GradMode mode(grad_mode() && tracked(cotangents));
  const std::vector<Tensor> found = autograd::vjp_until(outputs, inputs, seeds, std::move(stops));
  std::vector<Tensor> result;
  size_t next = 0;
  for (const Tensor& input : inputs_) {
    if (!differentiable(input)) {
      result.emplace_back();
      continue;
    }
    const Tensor& g = found[next++];
    result.push_back(g.defined() ? g : zeros_like(input));
  }
  return result;
}

std::vector<Tensor> Linearization::push(std::span<const Tensor> tangents) const {
  if (tangents.size() != inputs_.size()) {
    throw GradError(fmt::format("[{}] the function takes {} tensors, but there are {} tangents", who_, inputs_.size(),
                                tangents.size()));
  }
  autograd::Tangents by_node;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!differentiable(inputs_[i])) continue;
    if (tangents[i].defined()) check_fits(who_, "tangent", i, tangents[i], inputs_[i]);
    by_node.emplace(inputs_[i].node().get(), tangents[i]);
  }
  std::vector<Tensor> outputs;
  for (const Tensor& output : outputs_) {
    if (differentiable(output)) outputs.push_back(output);
  }
  const GradMode mode(grad_mode() && tracked(tangents));
  const std::vector<Tensor> found = autograd::push_forward(outputs, std::move(by_node));
  std::vector<Tensor> result;
  size_t next = 0;
  for (const Tensor& output : outputs_) {
    if (!differentiable(output)) {
      result.emplace_back();
      continue;
    }
    const Tensor& t = found[next++];
    result.push_back(t.defined() ? t : zeros_like(output));
  }
  return result;
}

std::vector<Tensor> Linearization::gradient() const {
  if (outputs_.empty() || !differentiable(outputs_[0]) || outputs_[0].numel() != 1) {
    throw GradError(
        fmt::format("[{}] the function must give a floating tensor with one element (first, if it gives several), not "
                    "{}; reduce it (sum, mean), or "
                    "use vjp, jacrev or jacfwd",
                    who_,
                    outputs_.empty()        ? "none"
                    : outputs_[0].defined() ? show(outputs_[0])
                                            : "an empty handle"));
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (differentiable(inputs_[i])) continue;
    throw GradError(
        fmt::format("[{}] tensor {} of the differentiated arguments is {}: only floating tensors have gradients; say "
                    "by which arguments, as in grad<1>(f)",
                    who_, i, inputs_[i].defined() ? show(inputs_[i]) : "an empty handle"));
  }
  if (inputs_.empty()) throw GradError(fmt::format("[{}] the differentiated arguments hold no tensor", who_));
  std::vector<Tensor> cotangents(outputs_.size());
  cotangents[0] = ones_like(outputs_[0]);
  return pull(cotangents);
}

namespace {

// The vectors of the standard basis of x's space, stacked: (n, shape of x).
Tensor basis(const Tensor& x) {
  Shape shape{x.numel()};
  for (const int64_t d : x.shape()) shape.push_back(d);
  return reshape(
      x.numel() == 0 ? zeros(Shape{0, 0}, x.dtype(), &x.device()) : eye(x.numel(), -1, x.dtype(), &x.device()), shape);
}

Shape joined(const Tensor& output, const Tensor& input) {
  Shape shape = output.shape();
  for (const int64_t d : input.shape()) shape.push_back(d);
  return shape;
}

}  // namespace

std::vector<std::vector<Tensor>> Linearization::jacobian(bool forward) const {
  const auto check = [&](const std::vector<Tensor>& all, const char* what) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (!differentiable(all[i]))
        throw GradError(fmt::format("[{}] {} {} is {}: only floating tensors have Jacobians", who_, what, i,
                                    all[i].defined() ? show(all[i]) : "an empty handle"));
    }
  };
  check(inputs_, "tensor of the differentiated arguments");
  check(outputs_, "result");
  std::vector<std::vector<Tensor>> result(outputs_.size(), std::vector<Tensor>(inputs_.size()));
  if (forward) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto column = vmap(
          [&](const Tensor& direction) {
            std::vector<Tensor> tangents(inputs_.size());
            tangents[i] = direction;
            return push(tangents);
          },
          {0}, {-1});
      const std::vector<Tensor> columns = column(basis(inputs_[i]));
      for (size_t k = 0; k < outputs_.size(); ++k) result[k][i] = reshape(columns[k], joined(outputs_[k], inputs_[i]));
    }
    return result;
  }
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const auto row = vmap([&](const Tensor& direction) {
      std::vector<Tensor> cotangents(outputs_.size());
      cotangents[k] = direction;
      return pull(cotangents);
    });
    const std::vector<Tensor> rows = row(basis(outputs_[k]));
    for (size_t i = 0; i < inputs_.size(); ++i) result[k][i] = reshape(rows[i], joined(outputs_[k], inputs_[i]));
  }
  return result;
}

}  // namespace heddle::detail
