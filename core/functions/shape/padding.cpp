// Padding by reflection, repetition and around the ends.
#include "heddle/core/functions/shape/padding.h"

#include <fmt/format.h>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {
namespace {

Tensor part(const Tensor& x, int at, int64_t start, int64_t stop) {
  return slice(x, at, {.start = start, .stop = stop});
}

// What stands before (or after) the axis' elements.
Tensor border(const Tensor& x, int at, int64_t amount, PadMode mode, bool before) {
  const int64_t n = x.dim(at);
  switch (mode) {
    case PadMode::reflect:
      return flip(before ? part(x, at, 1, 1 + amount) : part(x, at, n - 1 - amount, n - 1), {at});
    case PadMode::circular:
      return before ? part(x, at, n - amount, n) : part(x, at, 0, amount);
    default:
      return expand(before ? part(x, at, 0, 1) : part(x, at, n - 1, n), x.shape().with(at, amount));
  }
}

void check(const Tensor& x, int at, int64_t amount, PadMode mode) {
  const int64_t n = x.dim(at);
  if (amount < 0)
    throw ValueError(fmt::format("[pad] the amount {} of axis {} is negative; slice() takes away", amount, at));
  if (amount == 0) return;
  if (mode == PadMode::reflect && amount >= n)
    throw ShapeError(fmt::format("[pad] reflect by {} needs more than so many elements along axis {}; x is {}", amount,
                                 at, x.shape().str()));
  if (mode == PadMode::circular && amount > n)
    throw ShapeError(fmt::format("[pad] circular by {} needs at least so many elements along axis {}; x is {}", amount,
                                 at, x.shape().str()));
  if (n == 0) throw ShapeError(fmt::format("[pad] axis {} of {} has no elements to repeat", at, x.shape().str()));
}

}  // namespace

Tensor pad(const Tensor& x, std::vector<std::pair<int64_t, int64_t>> amounts, PadMode mode, Caller caller) {
  const CallerScope scope(caller);
  if (mode == PadMode::constant) return pad(x, std::move(amounts), 0.0);
  if (amounts.size() > static_cast<size_t>(x.rank()))
    throw ShapeError(fmt::format("[pad] {} pairs of amounts for x {}", amounts.size(), x.shape().str()));
  Tensor y = x;
  for (int at = 0; at < static_cast<int>(amounts.size()); ++at) {
    const auto [before, after] = amounts[static_cast<size_t>(at)];
    check(y, at, before, mode);
    check(y, at, after, mode);
    std::vector<Tensor> parts;
    if (before > 0) parts.push_back(border(y, at, before, mode, true));
    parts.push_back(y);
    if (after > 0) parts.push_back(border(y, at, after, mode, false));
    if (parts.size() > 1) y = concat(parts, at);
  }
  return y;
}

}  // namespace heddle
