// Functions with derivatives given by hand: custom_vjp, custom_jvp, straight_through.
//
//   auto clip = custom_vjp([](const Tensor& x) { return x; },                                       // the value
//                          [](const Tensor& x) { return std::pair(x, x); },                         // value, and what
//                          backward wants to see
//                          [](const Tensor& x, const Tensor& g) { return where(abs(x) < 1, g, 0); });
//   auto soft = custom_jvp([](const Tensor& x) { return log1p(exp(x)); },
//                          [](const Tensor& x, const Tensor& t) { return sigmoid(x) * t; });
//   auto hard = straight_through([](const Tensor& x) { return round(x); });                         // gradient of x
//
// The rules are recorded code: they are differentiated in turn for higher orders, and mapped by vmap. From either of a
// reverse and a forward rule the other follows by transposition: a rule must be linear in its cotangents or tangents.
// Arguments and results are trees (autograd/tree.h); floating tensors of the arguments are differentiated. What a
// function closes over has no gradient. Errors: GradError when a rule gives another number of tensors, another shape or
// dtype than it should. Inside the body of a scan the rule is lost: GradError. Thread safety: recording is per thread;
// f and its rules may be called by several threads where they could be otherwise.
#pragma once

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/autograd/tree.h"
#include "heddle/core/base/callable.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

namespace detail {

// A tree without its tensors, so that a rule keeps no value alive: which were floating, and what they were like.
struct Like {
  Shape shape;
  DType dtype;
  DeviceContext* device;
};
struct Leaves {
  explicit Leaves(std::span<Tensor* const> places);
  // Takes the floating tensors and the others out.
  std::pair<std::vector<Tensor>, std::vector<Tensor>> take();
  std::vector<Tensor> floating, others;
  std::vector<Like> like;  // of the floating ones
  std::vector<int> kinds;  // by place: 0 empty, 1 floating, 2 other
  void put(std::span<Tensor* const> places, std::span<const Tensor> floats, std::span<const Tensor> rest) const;
};
template <class T>
class Skeleton {
 public:
  explicit Skeleton(T value) : tree_(std::move(value)), leaves_(tree::places(tree_)) {
    for (Tensor* place : tree::places(tree_)) *place = Tensor();
  }
  // Takes the tensors out.
  std::pair<std::vector<Tensor>, std::vector<Tensor>> take() { return leaves_.take(); }
  const Leaves& leaves() const { return leaves_; }
  // The tree with these; a shorter list leaves handles empty.
  T fill(std::span<const Tensor> floats, std::span<const Tensor> rest) const {
    T made = tree_;
    leaves_.put(tree::places(made), floats, rest);
    return made;
  }

 private:
  T tree_;
  Leaves leaves_;
};

bool any_tracks(const std::vector<Tensor>& tensors);
// One for each floating tensor of the arguments, from what a rule gave for all arguments or for those.
std::vector<Tensor> for_floating(const std::vector<Tensor>& given, const Leaves& arguments, const char* who);
// One for each floating result: zeros but for `number`.
std::vector<Tensor> zeros_but(const Leaves& results, size_t number, const Tensor& g);

// Puts each floating result into a node with that rule; `others` is what the rule sees of the node's inputs behind the
// `arguments`.
using CustomVjp = Callable<std::vector<Tensor>(std::span<const Tensor> others, size_t result, const Tensor& cotangent)>;
using CustomJvp = Callable<std::vector<Tensor>(std::span<const Tensor> arguments, std::span<const Tensor> others,
                                               std::span<const Tensor> tangents)>;
void wrap_vjp(const std::vector<Tensor*>& results, const std::vector<Tensor>& arguments,
              const std::vector<Tensor>& others, const CustomVjp& vjp);
void wrap_jvp(const std::vector<Tensor*>& results, const std::vector<Tensor>& arguments,
              const std::vector<Tensor>& others, const CustomJvp& jvp);

template <class T>
decltype(auto) only(const T& arguments) {
  if constexpr (std::tuple_size_v<T> == 1)
    return std::get<0>(arguments);
  else
    return (arguments);
}
std::vector<Tensor> joined(std::vector<Tensor> a, const std::vector<Tensor>& b);

}  // namespace detail

// forward(arguments) gives {value, residuals}; backward(residuals, cotangent of the value) gives the cotangent of the
// argument, or a tuple of those of all arguments (undefined: zero, and for tensors that are not floating). f itself is
// called where no gradient is recorded.
template <class F, class Forward, class Backward>
auto custom_vjp(F f, Forward forward, Backward backward) {
  struct Functions {
    F f;
    Forward forward;
    Backward backward;
  };
  return [shared = std::make_shared<Functions>(
              Functions{std::move(f), std::move(forward), std::move(backward)})]<class... Args>(const Args&... args) {
    using Result = std::decay_t<decltype(shared->f(args...))>;
    detail::Skeleton given(std::tuple<std::decay_t<Args>...>(args...));
    const std::vector<Tensor> arguments = given.take().first;
    if (!detail::any_tracks(arguments)) return Result(shared->f(args...));
    auto [value, kept] = shared->forward(args...);
    Result result = std::move(value);
    detail::Skeleton cotangents(result);
    cotangents.take();
    detail::Skeleton residuals(std::move(kept));
    const auto [floats, rest] = residuals.take();
    const size_t count = floats.size();
    const auto vjp = [shared, given, cotangents, residuals, count](std::span<const Tensor> others, size_t number,
                                                                   const Tensor& g) {
      const std::vector<Tensor> all = detail::zeros_but(cotangents.leaves(), number, g);
      const auto back =
          shared->backward(residuals.fill(others.first(count), others.subspan(count)), cotangents.fill(all, {}));
      return detail::for_floating(tree::tensors(back), given.leaves(), "custom_vjp");
    };
    detail::wrap_vjp(tree::places(result), arguments, detail::joined(floats, rest), vjp);
    return result;
  };
}

// rule(primal, tangent) gives the tangent of f's value; with several arguments it gets two tuples. Tensors that are not
// floating have an empty tangent.
template <class F, class Rule>
auto custom_jvp(F f, Rule rule) {
  struct Functions {
    F f;
    Rule rule;
  };
  return [shared = std::make_shared<Functions>(Functions{std::move(f), std::move(rule)})]<class... Args>(
             const Args&... args) {
    using Result = std::decay_t<decltype(shared->f(args...))>;
    detail::Skeleton given(std::tuple<std::decay_t<Args>...>(args...));
    const auto [arguments, others] = given.take();
    Result result = shared->f(args...);
    if (!detail::any_tracks(arguments)) return result;
    detail::Skeleton values(result);
    values.take();
    const auto jvp = [shared, given, values](std::span<const Tensor> primals, std::span<const Tensor> rest,
                                             std::span<const Tensor> tangents) {
      const auto pushed = shared->rule(detail::only(given.fill(primals, rest)), detail::only(given.fill(tangents, {})));
      return detail::for_floating(tree::tensors(pushed), values.leaves(), "custom_jvp");
    };
    detail::wrap_jvp(tree::places(result), arguments, others, jvp);
    return result;
  };
}

// f(x), with the gradient of x itself: for rounding, quantisation and other steps. f keeps shape and dtype.
template <class F>
auto straight_through(F f) {
  return custom_jvp(std::move(f), [](const Tensor&, const Tensor& tangent) { return tangent; });
}

}  // namespace heddle
