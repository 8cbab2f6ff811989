#include "heddle/nn/clip.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::nn {
namespace {

// Tensors up to `whole` elements are one partial sum, longer ones one for each `chunk` elements and one for the rest.
constexpr int64_t whole = 65536, chunk = 16384;

void check_order(double order) {
  if (order != 1 && order != 2 && !(std::isinf(order) && order > 0))
    throw ValueError(fmt::format("[global_norm] order {} is not supported; known: 1, 2, infinity", order));
}

Tensor measure(const Tensor& x, double order) { return order == 2 ? x * x : abs(x); }

Tensor join(const Tensor& x, std::vector<int> axes, double order) {
  return std::isinf(order) ? max(x, std::move(axes)) : sum(x, std::move(axes));
}

void add_partials(const Tensor& given, double order, std::vector<Tensor>& parts) {
  const int64_t n = given.numel();
  if (n == 0) return;
  const Tensor x = given.dtype() == DType::f64 ? given : given.to(DType::f32);
  if (n <= whole) {
    parts.push_back(reshape(join(measure(x, order), {}, order), Shape{1}));
    return;
  }
  const Tensor flat = reshape(x, Shape{n});
  const int64_t rows = n / chunk, rest = n - rows * chunk;
  parts.push_back(join(measure(reshape(slice(flat, 0, {0, rows * chunk}), Shape{rows, chunk}), order), {1}, order));
  if (rest > 0) parts.push_back(reshape(join(measure(slice(flat, 0, {rows * chunk, n}), order), {}, order), Shape{1}));
}

std::vector<Tensor> gradients_of(std::span<const Tensor> parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace

Tensor global_norm(std::span<const Tensor> tensors, double order, Caller caller) {
  const CallerScope scope(caller);
  check_order(order);
  const NoGradScope no_grad;
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) {
    if (&tensor.device() != &tensors[0].device()) {
      throw ValueError(
          fmt::format("[global_norm] the tensors are on {} and {}; take the norm of each device's by itself",
                      tensors[0].device().id(), tensor.device().id()));
    }
    add_partials(tensor, order, parts);
  }
  if (parts.empty()) return zeros(Shape{}, DType::f32, tensors.empty() ? nullptr : &tensors[0].device());
  const Tensor total = join(parts.size() == 1 ? parts[0] : concat(parts, 0), {}, order);
  return order == 2 ? sqrt(total) : total;
}

Tensor clip_grad_norm(std::span<const Tensor> parameters, double max_norm, double order, bool error_if_nonfinite,
                      Caller caller) {
  const CallerScope scope(caller);
  if (!(max_norm >= 0))
    throw ValueError(fmt::format("[clip_grad_norm] max_norm is {}; it must not be negative", max_norm));
  const NoGradScope no_grad;
  const Tensor norm = global_norm(gradients_of(parameters), order);
  if (error_if_nonfinite && !std::isfinite(norm.item()))
    throw ValueError(fmt::format(
        "[clip_grad_norm] the gradients' norm is {}; likely cause: the learning rate is too high", norm.item()));
  const Tensor scale = clamp(max_norm / (norm + 1e-6), std::nullopt, 1.0);
  for (Tensor parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined()) parameter.set_grad((gradient * scale).to(gradient.dtype()));
  }
  return norm;
}

void clip_grad_value(std::span<const Tensor> parameters, double limit, Caller caller) {
  const CallerScope scope(caller);
  if (!(limit >= 0)) throw ValueError(fmt::format("[clip_grad_value] the limit is {}; it must not be negative", limit));
  const NoGradScope no_grad;
  for (Tensor parameter : parameters) {
    if (parameter.grad().defined()) parameter.set_grad(clamp(parameter.grad(), -limit, limit));
  }
}

}  // namespace heddle::nn
