#include "heddle/core/op/attrs.h"

#include <algorithm>
#include <utility>

namespace heddle {

int axis_of(const Attrs& attrs) { return static_cast<int>(attrs.ints[0]); }
Attrs axis_attrs(int64_t axis) { return {{axis}}; }

bool names_axis(const Attrs& attrs, int axis) {
  return std::find(attrs.ints.begin(), attrs.ints.end(), axis) != attrs.ints.end();
}

Attrs slice_attrs(std::span<const int64_t> start, std::span<const int64_t> step) {
  Attrs attrs{{start.begin(), start.end()}};
  attrs.ints.insert(attrs.ints.end(), step.begin(), step.end());
  return attrs;
}

ConvAttrs::ConvAttrs(const Attrs& attrs)
    : channels_last(attrs.ints[0] != 0), groups(attrs.ints[1]), parts(static_cast<int64_t>(attrs.real)) {
  const auto rank = static_cast<std::ptrdiff_t>((attrs.ints.size() - 2) / 3);
  const auto at = attrs.ints.begin() + 2;
  stride.assign(at, at + rank);
  dilation.assign(at + rank, at + 2 * rank);
  padding.assign(at + 2 * rank, at + 3 * rank);
}

Attrs ConvAttrs::packed() const {
  Attrs attrs{{channels_last, groups}, static_cast<double>(parts)};
  for (const std::vector<int64_t>* list : {&stride, &dilation, &padding})
    attrs.ints.insert(attrs.ints.end(), list->begin(), list->end());
  return attrs;
}

AttentionAttrs::AttentionAttrs(const Attrs& attrs)
    : causal(attrs.ints[0] != 0),
      bias(attrs.ints[1] != 0),
      mask(attrs.ints[2] != 0),
      lengths(attrs.ints[3] != 0),
      key(attrs.ints[4] != 0),
      splits(attrs.ints[5]),
      scale(attrs.real),
      drop(attrs.real2) {}

Attrs AttentionAttrs::packed() const { return {{causal, bias, mask, lengths, key, splits}, scale, drop}; }

ScanAttrs::ScanAttrs(const Attrs& attrs)
    : axis(axis_of(attrs)), exclusive(attrs.ints[1] != 0), reverse(attrs.ints[2] != 0), chunk(attrs.ints[3]) {}

Attrs ScanAttrs::packed() const { return {{axis, exclusive, reverse, chunk}}; }

SortAttrs::SortAttrs(const Attrs& attrs)
    : descending(attrs.ints[0] != 0), kept(attrs.ints[1]), block(attrs.ints.size() > 2 ? attrs.ints[2] : 0) {}

Attrs sort_attrs(bool descending, int64_t kept, int64_t block) {
  Attrs attrs{{descending, kept}};
  if (block > 0) attrs.ints.push_back(block);
  return attrs;
}

MergeAttrs::MergeAttrs(const Attrs& attrs) : descending(attrs.ints[0] != 0), run(attrs.ints[1]), kept(attrs.ints[2]) {}

Attrs merge_attrs(bool descending, int64_t run, int64_t kept) { return {{descending, run, kept}}; }

TriangularAttrs::TriangularAttrs(const Attrs& attrs)
    : upper(attrs.ints[0] != 0), transposed(attrs.ints[1] != 0), unit(attrs.ints[2] != 0) {}

Attrs triangular_attrs(bool upper, bool transposed, bool unit) { return {{upper, transposed, unit}}; }

CollectiveAttrs::CollectiveAttrs(const Attrs& attrs) : axes(static_cast<AxisMask>(attrs.ints[0])) {
  for (size_t i = 1; i + 1 < attrs.ints.size(); i += 2) pairs.emplace_back(attrs.ints[i], attrs.ints[i + 1]);
}

Attrs CollectiveAttrs::packed() const {
  Attrs attrs{{static_cast<int64_t>(axes)}};
  for (const auto& [from, to] : pairs) attrs.ints.insert(attrs.ints.end(), {from, to});
  return attrs;
}

namespace {

bool ascending_below(const std::vector<int64_t>& axes, int rank) {
  int64_t last = -1;
  return std::all_of(axes.begin(), axes.end(),
                     [&](int64_t axis) { return axis > std::exchange(last, axis) && axis < rank; });
}

}  // namespace

bool fits(AttrsForm form, const Attrs& attrs, int rank) {
  const auto count = static_cast<int64_t>(attrs.ints.size());
  const auto is_axis = [&] { return count > 0 && attrs.ints[0] >= 0 && attrs.ints[0] < rank; };
  switch (form) {
    case AttrsForm::free:
      return true;
    case AttrsForm::none:
      return count == 0;
    case AttrsForm::axis:
      return count == 1 && is_axis();
    case AttrsForm::axes:
      return ascending_below(attrs.ints, rank);
    case AttrsForm::order:
    case AttrsForm::before:
      return count == rank;
    case AttrsForm::slice:
      return count == 2 * rank;
    case AttrsForm::conv:
      return rank > 2 && count == 2 + 3 * (rank - 2);
    case AttrsForm::attention:
      return count == 6 && attrs.ints[5] > 0;
    case AttrsForm::scan:
      return count == 4 && is_axis();
    case AttrsForm::sort:
      return count == 2 || count == 3;
    case AttrsForm::merge:
    case AttrsForm::triangle:
      return count == 3;
    case AttrsForm::collective:
      return count % 2 == 1;
  }
  return false;
}

}  // namespace heddle
