#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/build.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/watched.h"

namespace heddle {
namespace {

int64_t length_of(const std::vector<Tensor>& xs, const ScanOptions& options) {
  if (options.length && (*options.length < 0 || *options.length > INT32_MAX))
    throw ValueError(fmt::format("[scan] the length is {}; it must be in [0, 2^31)", *options.length));
  if (xs.empty()) {
    if (!options.length) throw ValueError("[scan] there are no xs and no length; set ScanOptions::length");
    return *options.length;
  }
  for (size_t i = 0; i < xs.size(); ++i) {
    if (xs[i].rank() == 0)
      throw ShapeError(fmt::format("[scan] xs {} is a scalar; xs are cut along their first axis", i));
    if (xs[i].dim(0) != xs[0].dim(0)) {
      throw ShapeError(
          fmt::format("[scan] xs 0 {} has {} slices, but xs {} {} has {}; all xs have one length along axis 0",
                      xs[0].shape().str(), xs[0].dim(0), i, xs[i].shape().str(), xs[i].dim(0)));
    }
  }
  if (options.length && *options.length != xs[0].dim(0)) {
    throw ShapeError(fmt::format("[scan] the length is {}, but xs 0 {} has {} slices", *options.length,
                                 xs[0].shape().str(), xs[0].dim(0)));
  }
  return xs[0].dim(0);
}

DeviceContext& device_of(const std::vector<Tensor>& init, const std::vector<Tensor>& xs, DeviceContext* given) {
  const Tensor* first = !init.empty() ? &init[0] : !xs.empty() ? &xs[0] : nullptr;
  DeviceContext& device = first ? first->device() : build::device_of(given);
  for (const std::vector<Tensor>* list : {&init, &xs}) {
    for (const Tensor& t : *list) {
      if (&t.device() != &device)
        throw ValueError(fmt::format("[scan] tensors live on different devices: {} and {}; move one with to()",
                                     device.id(), t.device().id()));
    }
  }
  return device;
}

void check_carries(const std::vector<Tensor>& init, const std::vector<Tensor>& next) {
  if (next.size() != init.size()) {
    throw ValueError(fmt::format("[scan] the body gives {} carries, but the loop began with {}; return one for each",
                                 next.size(), init.size()));
  }
  for (size_t c = 0; c < init.size(); ++c) {
    if (!next[c].defined()) throw ValueError(fmt::format("[scan] the body gives an undefined tensor as carry {}", c));
    if (next[c].shape() != init[c].shape()) {
      throw ShapeError(fmt::format("[scan] the body makes carry {} {} from {}; a carry keeps its shape", c,
                                   next[c].shape().str(), init[c].shape().str()));
    }
    if (next[c].dtype() != init[c].dtype()) {
      throw DTypeError(fmt::format("[scan] the body makes carry {} {} from {}; a carry keeps its dtype: cast it", c,
                                   name_of(next[c].dtype()), name_of(init[c].dtype())));
    }
  }
}

std::vector<NodePtr> nodes_of(const std::vector<Tensor>& tensors) {
  std::vector<NodePtr> nodes;
  for (const Tensor& t : tensors) nodes.push_back(t.node());
  return nodes;
}

Scanned nothing(const std::vector<Tensor>& init, const std::vector<Tensor>& ys, DeviceContext& device) {
  Scanned result{init, {}};
  for (const Tensor& y : ys) {
    Shape empty{0};
    for (int64_t d : y.shape()) empty.push_back(d);
    result.ys.push_back(zeros(empty, y.dtype(), &device));
  }
  return result;
}

}  // namespace

Scanned scan(const ScanBody& f, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
             const ScanOptions& options, Caller caller) {
  const CallerScope scope(caller);
  if (!f) throw ValueError("[scan] the body is an empty function");
  for (size_t c = 0; c < init.size(); ++c) {
    if (!init[c].defined()) throw ValueError(fmt::format("[scan] carry {} is undefined", c));
  }
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!xs[i].defined()) throw ValueError(fmt::format("[scan] xs {} is undefined", i));
  }
  LoopShape shape{length_of(xs, options), static_cast<int>(init.size()), static_cast<int>(xs.size()), options.reverse,
                  options.checkpoint_body};
  DeviceContext& device = device_of(init, xs, options.device);

  const WatchedScope watched;
  BodyTrace trace(device, shape.length);
  std::vector<Tensor> carry, slices;
  for (const Tensor& t : init) carry.push_back(trace.argument(t.shape(), t.dtype()));
  for (const Tensor& t : xs)
    slices.push_back(trace.argument(Shape(std::vector<int64_t>(t.shape().begin() + 1, t.shape().end())), t.dtype()));
  const Scanned step = f(carry, slices);
  check_carries(init, step.carry);
  for (size_t i = 0; i < step.ys.size(); ++i) {
    if (!step.ys[i].defined())
      throw ValueError(fmt::format("[scan] the body gives an undefined tensor as result {}", i));
  }
  std::vector<Tensor> all = step.carry;
  all.insert(all.end(), step.ys.begin(), step.ys.end());
  const std::vector<Tensor*> checks = watched.values();
  for (const Tensor* check : checks) all.push_back(*check);
  const BodyTrace::Closed closed = trace.close(nodes_of(all));
  if (shape.length == 0) {
    watched.forget();
    return nothing(init, step.ys, device);
  }

  std::vector<NodePtr> inputs = nodes_of(init);
  for (const NodePtr& x : nodes_of(xs)) inputs.push_back(x);
  if (trace.asked_iteration()) {
    inputs.push_back(arange(0, static_cast<double>(shape.length), 1, DType::i32, &device).node());
    ++shape.slices;
  }
  inputs.insert(inputs.end(), closed.captured.begin(), closed.captured.end());
  const NodePtr loop = make_loop(device, closed.body, std::move(inputs), shape);
  const auto stack_of = [&](size_t result) {
    return loop_stack(loop, closed.body->index.at(closed.body->results[result].get()));
  };
  Scanned result;
  for (int c = 0; c < shape.carries; ++c) result.carry.push_back(loop_carry(loop, c));
  for (size_t i = 0; i < step.ys.size(); ++i) result.ys.push_back(stack_of(init.size() + i));
  for (size_t i = 0; i < checks.size(); ++i) *checks[i] = stack_of(init.size() + step.ys.size() + i);
  return result;
}

}  // namespace heddle
