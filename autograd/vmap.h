// vmap: a function of one example becomes a function of many, without a loop.
//
//   Tensor y = vmap(f)(batch);                                    // f sees slices of axis 0; results are stacked along
//   a new axis 0 Tensor y = vmap(f, {0, std::nullopt})(batch, shared);         // only the first argument is mapped
//   Tensor y = vmap(f, {-1}, {1})(x);                             // slices of the last axis; results stacked along
//   axis 1
//
// f is recorded once over an example of each mapped argument, a tensor of the slice's shape without a value; then every
// operation that depends on an example is recorded again with the mapped axis in front, by the rule of its row
// (autograd/batching.h). The result costs what one operation on all examples costs. in_axes: one entry for each
// argument, or one for all; it counts from the end when negative, std::nullopt leaves an argument as it is; all tensors
// of an argument have the same. out_axes: one entry for each tensor of the result, or one for all. What does not depend
// on an example is repeated in the result. vmap of vmap, of a gradient, gradients of vmap, vmap inside compile(): all
// work; tensors that f closes over are not mapped. Random draws in f: by default each example gets its own
// (Randomness::different, one larger draw); `same` draws once for all; `error` refuses. Errors: ShapeError for an axis
// out of range or sizes that differ; ValueError for a wrong number of axes, for looking at a value of an example,
// assigning one to a tensor outside, and for an op without a rule, which is named. Thread safety: as recording: per
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/autograd/tree.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/graph/watched.h"

namespace heddle {

enum class Randomness : uint8_t { different, same, error };

struct VmapOptions {
  Randomness randomness = Randomness::different;
  std::optional<int64_t> axis_size;  // needed where no argument is mapped
};

using InAxes = std::vector<std::optional<int>>;

namespace detail {

class Mapping {
 public:
  // `places`: the tensors of each argument. Replaces the mapped ones by examples.
  Mapping(const InAxes& in_axes, const VmapOptions& options, std::span<const std::vector<Tensor*>> places);
  template <class Run>
  auto run(const Run& run) {
    const ExampleScope scope;
    auto result = run();
    note_keys(scope);
    return result;
  }
  void note_keys(const ExampleScope& scope);
  // Replaces what f gave for an example by what it gives for all.
  void finish(const std::vector<int>& out_axes, std::span<Tensor* const> places);

 private:
  VmapOptions options_;
  WatchedScope watched_;
  int64_t size_ = 0;
  std::vector<NodePtr> examples_;
  std::vector<Tensor> whole_;  // the mapped axis first
  std::vector<NodePtr> keys_;
};

}  // namespace detail

template <class F>
auto vmap(F f, InAxes in_axes = {0}, std::vector<int> out_axes = {0}, VmapOptions options = {}) {
  return [f = std::make_shared<F>(std::move(f)), in_axes = std::move(in_axes), out_axes = std::move(out_axes),
          options]<class... Args>(const Args&... args) {
    std::tuple<std::decay_t<Args>...> arguments(args...);
    const auto places = std::apply(
        [](auto&... argument) { return std::vector<std::vector<Tensor*>>{tree::places(argument)...}; }, arguments);
    detail::Mapping mapping(in_axes, options, places);
    auto result = mapping.run([&] { return std::apply(*f, std::as_const(arguments)); });
    mapping.finish(out_axes, tree::places(result));
    return result;
  };
}

}  // namespace heddle
