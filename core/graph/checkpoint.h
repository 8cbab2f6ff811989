// Activation checkpointing: what a function computed is computed again for its gradient instead of being kept.
//
// Purpose: Tensor y = checkpoint(block, x); gives the values and gradients of block(x), bit for bit, and keeps only x
// and y between the forward and the backward pass. Nodes recorded inside are marked; the planner
// (core/specialise/recompute.h) computes a marked value again for whoever reads it from outside, which are the
// gradients. Random masks are drawn again from their keys. Recorded eagerly, unplanned (EagerScope), nothing is saved.
// Invariants: results of the function itself (a Tensor, or a vector, pair or tuple of them) are kept. Values that leave
// the function by another way are computed again, or kept where a Tensor holds them. A checkpoint inside another
// belongs to the outer one. With CheckpointOptions{.offload = true}, or offload(x) for one value, nothing is computed
// again: what gradients need is copied to page-locked host memory after its last use in the forward pass and back
// before it is used again, inside the recorded step (core/memory/offload.h). Thread safety: per thread, as recording
// is. Chen et al. 2016, "Training deep nets with sublinear memory cost".
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/core/graph/recompute_scope.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

struct CheckpointOptions {
  bool offload = false;  // keep what gradients need in host memory instead of computing it again
};

// x, kept in host memory between its last use before and its first use after the fullest stretch of the step; x itself
// is returned. The result of a checkpoint may be one. Says nothing for a value that is there already (a parameter, a
// batch), inside a checkpoint, or that ends up inside a fused kernel and is never stored.
Tensor offload(const Tensor& x);

namespace detail {
// Takes the mark off, unless an outer checkpoint goes on.
void keep(const Tensor& result);
inline void keep(const std::vector<Tensor>& results) {
  for (const Tensor& result : results) keep(result);
}
template <class... T>
void keep(const std::tuple<T...>& results) {
  std::apply([](const auto&... result) { (keep(result), ...); }, results);
}
template <class A, class B>
void keep(const std::pair<A, B>& results) {
  keep(results.first);
  keep(results.second);
}
}  // namespace detail

namespace detail {
template <class F, class... Arguments>
auto checkpointed(CheckpointOptions options, F&& function, Arguments&&... arguments) {
  auto result = [&] {
    const RecomputeScope scope(options.offload ? Keep::offload : Keep::inside);
    return std::forward<F>(function)(std::forward<Arguments>(arguments)...);
  }();
  keep(result);
  return result;
}
template <class... Arguments>
inline constexpr bool tensor_first = false;
template <class First, class... Rest>
inline constexpr bool tensor_first<First, Rest...> = std::is_convertible_v<First, const Tensor&>;
}  // namespace detail

// With a tensor as the first argument, what the function does not place itself (a layer of the library) is placed where
// this call stands.
template <class F, class... Arguments>
auto checkpoint(CheckpointOptions options, F&& function, TensorArg first, Arguments&&... rest) {
  const CallerScope scope(first.caller);
  return detail::checkpointed(options, std::forward<F>(function), first.tensor, std::forward<Arguments>(rest)...);
}
template <class F, class... Arguments>
requires(!detail::tensor_first<Arguments...>) auto checkpoint(CheckpointOptions options, F&& function,
                                                              Arguments&&... arguments) {
  return detail::checkpointed(options, std::forward<F>(function), std::forward<Arguments>(arguments)...);
}
template <class F, class... Arguments>
requires(!std::is_same_v<std::decay_t<F>, CheckpointOptions>) auto checkpoint(F&& function, TensorArg first,
                                                                              Arguments&&... rest) {
  const CallerScope scope(first.caller);
  return detail::checkpointed({}, std::forward<F>(function), first.tensor, std::forward<Arguments>(rest)...);
}
template <class F, class... Arguments>
requires(!std::is_same_v<std::decay_t<F>, CheckpointOptions> &&
         !detail::tensor_first<Arguments...>) auto checkpoint(F&& function, Arguments&&... arguments) {
  return detail::checkpointed({}, std::forward<F>(function), std::forward<Arguments>(arguments)...);
}

}  // namespace heddle
