// vmap against a loop over examples: results and per-example gradients together.
#include <fmt/format.h>

#include "heddle/autograd/vmap.h"
#include "tests/reference/property.h"

namespace heddle::tests {
namespace {

constexpr int64_t size = 3;

// The case's own values, turned by b places: elements stay where the function is defined.
Tensor example(const Tensor& x, int64_t b) {
  return x.numel() < 2 ? x : reshape(roll(reshape(x, {x.numel()}), {b}, {0}), x.shape());
}

Tensor stacked(const List& parts, int axis) { return stop_gradient(stack(parts, axis)); }

// vmap of a function of a list, each tensor with an axis of its own.
template <class F>
List mapped(const F& f, const List& whole, const InAxes& axes) {
  List in = whole;
  std::vector<std::vector<Tensor*>> places;
  for (Tensor& t : in) places.push_back({&t});
  detail::Mapping mapping(axes, {Randomness::same, {}}, places);
  List result = mapping.run([&] { return f(in); });
  mapping.finish({0}, tree::places(result));
  return result;
}

std::string compare(const Subject& s, const InAxes& axes) {
  List whole;
  std::vector<List> inputs(size), results(size);
  for (size_t k = 0; k < s.inputs.size(); ++k) {
    List parts;
    for (int64_t b = 0; b < size; ++b) {
      parts.push_back(axes[k] ? example(s.inputs[k], b) : s.inputs[k]);
      inputs[static_cast<size_t>(b)].push_back(stop_gradient(parts.back()));
    }
    whole.push_back(axes[k] ? stacked(parts, *axes[k]) : s.inputs[k]);
  }
  for (size_t b = 0; b < size; ++b) results[b] = s.outputs_and_gradients(inputs[b]);
  List expected;
  for (size_t k = 0; k < results[0].size(); ++k) {
    List rows;
    for (const List& one : results) rows.push_back(one[k]);
    expected.push_back(stacked(rows, 0));
  }
  return list_difference(mapped([&](const List& in) { return s.outputs_and_gradients(in); }, whole, axes), expected,
                         1e-10);
}

// All inputs along the first axis; all along the last; with several inputs, each but one of them.
Verdict vmap_equals_loop(const StoredCase& stored) {
  const Subject s(stored);
  if (s.inputs.empty()) return not_applicable;
  std::vector<InAxes> choices{InAxes(s.inputs.size(), 0), InAxes(s.inputs.size(), -1)};
  for (size_t k = 0; s.inputs.size() > 1 && k < s.inputs.size(); ++k) {
    choices.emplace_back(s.inputs.size(), k % 2 == 0 ? 0 : -1);
    choices.back()[k] = std::nullopt;
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    if (const std::string wrong = compare(s, choices[i]); !wrong.empty())
      return fmt::format("choice {} of mapped inputs: {}", i, wrong);
  }
  return "";
}

HEDDLE_PROPERTY(MapsOverExamples, vmap_equals_loop);

}  // namespace
}  // namespace heddle::tests
