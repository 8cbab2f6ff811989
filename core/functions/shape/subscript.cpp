// x[...]: one slice along all axes, then a reshape that drops the indexed axes and puts in the new ones.
#include "heddle/core/graph/subscript.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {
namespace {

using Kind = SubscriptItem::Kind;

bool takes_axis(const SubscriptItem& item) { return item.kind == Kind::index || item.kind == Kind::slice; }

// The axes that the items leave to the ellipsis.
int rest_of(const Tensor& x, const std::vector<SubscriptItem>& items) {
  if (std::count_if(items.begin(), items.end(), [](const SubscriptItem& i) { return i.kind == Kind::rest; }) > 1)
    throw ValueError("[index] more than one ellipsis; which axes each stands for is open");
  const auto taken = std::count_if(items.begin(), items.end(), takes_axis);
  if (taken > x.rank()) {
    throw ShapeError(fmt::format("[index] {} indices and slices for {}; at most one an axis", taken, x.shape().str()));
  }
  return x.rank() - static_cast<int>(taken);
}

Slice one_element(const Tensor& x, int axis, int64_t index) {
  const int64_t size = x.dim(axis), at = index < 0 ? index + size : index;
  if (at < 0 || at >= size) {
    throw ValueError(fmt::format("[index] {} is out of range for axis {} of {}", index, axis, x.shape().str()));
  }
  return {at, at + 1};
}

}  // namespace

Subscript::Subscript(std::initializer_list<SubscriptItem> list, Caller where) : items(list), caller(where) {}

const Tensor Tensor::operator[](const Subscript& at) const {
  const CallerScope scope(at.caller);
  std::vector<SubscriptItem> items = at.items;
  const int rest = rest_of(*this, items);
  if (std::none_of(items.begin(), items.end(), [](const SubscriptItem& i) { return i.kind == Kind::rest; }))
    items.emplace_back(ellipsis);
  std::vector<Slice> ranges;
  for (const SubscriptItem& item : items) {
    const int axis = static_cast<int>(ranges.size());
    if (item.kind == Kind::index) ranges.push_back(one_element(*this, axis, item.index));
    if (item.kind == Kind::slice) ranges.push_back(item.slice);
    if (item.kind == Kind::rest) ranges.resize(ranges.size() + static_cast<size_t>(rest));
  }
  const Tensor part = heddle::slice(*this, ranges);
  Shape shape;
  int axis = 0;
  for (const SubscriptItem& item : items) {
    if (item.kind == Kind::index) ++axis;
    if (item.kind == Kind::slice) shape.push_back(part.dim(axis++));
    if (item.kind == Kind::added) shape.push_back(1);
    for (int i = 0; item.kind == Kind::rest && i < rest; ++i) shape.push_back(part.dim(axis++));
  }
  return heddle::reshape(part, shape);
}

}  // namespace heddle
