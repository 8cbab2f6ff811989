// Folds of reduce.inc.
#include <algorithm>

#include "heddle/onnx/ops/fold.h"

namespace heddle::onnx::fold {
namespace {

// combine(so far, element) from `start`, or from the first element where there is none.
template <class Combine>
Hosts reduction(const HostCall& c, std::optional<int64_t> start, const Combine& combine) {
  const HostTensor& x = c.input(0);
  if (is_float(x.type) || x.type == Type::u64) return {};
  const std::optional<std::vector<int64_t>> given = list(c, "axes", 1);
  const int rank = x.shape.rank();
  const bool nothing = !given || given->empty();
  if (nothing && c.integer("noop_with_empty_axes", 0) != 0) return {x};
  std::vector<bool> reduced(static_cast<size_t>(rank), nothing);
  if (!nothing) {
    for (const int64_t axis : *given) reduced[static_cast<size_t>(axis_of(c, axis, rank))] = true;
  }
  Shape kept, shape;
  for (int axis = 0; axis < rank; ++axis) {
    const bool gone = reduced[static_cast<size_t>(axis)];
    kept.push_back(gone ? 1 : x.shape[axis]);
    if (!gone || c.integer("keepdims", 1) != 0) shape.push_back(kept[axis]);
  }
  const std::vector<int64_t> values = x.ints();
  std::vector<std::optional<int64_t>> results(static_cast<size_t>(kept.numel()), start);
  const std::vector<size_t> at = places(kept, x.shape);
  for (size_t i = 0; i < values.size(); ++i) {
    std::optional<int64_t>& result = results[at[i]];
    result = result ? combine(*result, values[i]) : values[i];
  }
  std::vector<int64_t> whole;
  for (const std::optional<int64_t>& result : results) {
    if (!result) return {};
    whole.push_back(*result);
  }
  return {HostTensor::of_ints(x.type, shape, whole)};
}

}  // namespace

Hosts reduce_sum(const HostCall& c) {
  return reduction(c, 0, [](int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  });
}
Hosts reduce_prod(const HostCall& c) {
  return reduction(c, 1, [](int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  });
}
Hosts reduce_max(const HostCall& c) {
  return reduction(c, {}, [](int64_t a, int64_t b) { return std::max(a, b); });
}
Hosts reduce_min(const HostCall& c) {
  return reduction(c, {}, [](int64_t a, int64_t b) { return std::min(a, b); });
}

}  // namespace heddle::onnx::fold
