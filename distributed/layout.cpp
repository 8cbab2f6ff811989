#include "heddle/distributed/layout.h"

#include <fmt/format.h>

#include <bit>
#include <string>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/collective.h"
#include "heddle/distributed/collectives.h"

namespace heddle::distributed {
namespace {

enum class Kind : uint8_t { sum, scatter, swap, gather, cut };

// One change of a layout: `dim` is gathered, cut, scattered or split, `join` grows in a swap.
struct Step {
  Kind kind;
  AxisMask axes;
  int dim = 0, join = 0;
};

AxisMask above(AxisMask mask, AxisMask bit) { return mask & ~(bit - 1); }  // the bit itself and those behind it
AxisMask lowest(AxisMask mask) { return mask & (~mask + 1); }

// Whether the axis would be the innermost along the dimension.
bool innermost(AxisMask dim, AxisMask axis) { return dim < axis; }

template <class See>
void each_bit(AxisMask mask, const See& see) {
  for (; mask != 0; mask &= mask - 1) see(lowest(mask));
}

int cut_by(const Layout& layout, AxisMask axis) {
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    if ((layout.dims[d] & axis) != 0) return static_cast<int>(d);
  }
  return -1;
}

void plan_sums(Layout& now, const Layout& to, std::vector<Step>& steps) {
  AxisMask summed = now.partial;
  each_bit(now.partial, [&](AxisMask axis) {
    const int dim = cut_by(to, axis);
    if (dim < 0 || !innermost(now.dims[static_cast<size_t>(dim)], axis)) return;
    steps.push_back({Kind::scatter, axis, dim});
    now.dims[static_cast<size_t>(dim)] |= axis;
    summed &= ~axis;
  });
  if (summed != 0) steps.insert(steps.begin(), {Kind::sum, summed});
  now.partial = 0;
}

void plan_swaps(Layout& now, const Layout& to, std::vector<Step>& steps) {
  each_bit(now.axes() & to.axes(), [&](AxisMask axis) {
    const auto from = static_cast<size_t>(cut_by(now, axis)), into = static_cast<size_t>(cut_by(to, axis));
    if (from == into || !innermost(now.dims[from] & ~axis, axis) || !innermost(now.dims[into], axis)) return;
    steps.push_back({Kind::swap, axis, static_cast<int>(into), static_cast<int>(from)});
    now.dims[from] &= ~axis;
    now.dims[into] |= axis;
  });
}

// What both have from the outermost axis on stays.
void plan_cuts(Layout& now, const Layout& to, std::vector<Step>& steps) {
  const auto first_change = [&](size_t d) { return lowest(now.dims[d] ^ to.dims[d]); };
  std::vector<Step> cuts;
  for (size_t d = 0; d < now.dims.size(); ++d) {
    if (now.dims[d] == to.dims[d]) continue;
    const AxisMask first = first_change(d);
    if (const AxisMask gone = above(now.dims[d], first); gone != 0)
      steps.push_back({Kind::gather, gone, static_cast<int>(d)});
    if (const AxisMask made = above(to.dims[d], first); made != 0)
      cuts.push_back({Kind::cut, made, static_cast<int>(d)});
  }
  steps.insert(steps.end(), cuts.begin(), cuts.end());
}

std::vector<Step> planned(Layout now, const Layout& to) {
  std::vector<Step> steps;
  plan_sums(now, to, steps);
  plan_swaps(now, to, steps);
  plan_cuts(now, to, steps);
  return steps;
}

AxisNames names_of(AxisMask axes, const MeshScope& scope) {
  std::vector<std::string> names;
  for (size_t i = 0; i < scope.axes().size(); ++i) {
    if ((axes >> i & 1) != 0) names.push_back(scope.axes()[i].name);
  }
  return names;
}

Tensor taken(const Tensor& x, const Step& step, const MeshScope& scope) {
  const AxisNames names = names_of(step.axes, scope);
  switch (step.kind) {
    case Kind::sum:
      return collective::psum(x, step.axes);
    case Kind::scatter:
      return reduce_scatter(x, names, step.dim);
    case Kind::swap:
      return all_to_all(x, names, step.dim, step.join);
    case Kind::gather:
      return all_gather(x, names, step.dim);
    case Kind::cut:
      break;
  }
  const int64_t size = x.dim(step.dim) / scope.size(step.axes), place = scope.place(step.axes);
  return slice(x, step.dim, {.start = place * size, .stop = (place + 1) * size});
}

}  // namespace

AxisMask Layout::axes() const {
  AxisMask all = 0;
  for (const AxisMask dim : dims) all |= dim;
  return all;
}

Layout whole_layout(int rank) { return {std::vector<AxisMask>(static_cast<size_t>(rank)), 0}; }

Layout layout_of(const Spec& spec, int rank, const MeshScope& scope, std::string_view who) {
  if (spec.dims.size() > static_cast<size_t>(rank))
    throw ValueError(fmt::format("[{}] a Spec of {} dimensions for a value of {}", who, spec.dims.size(), rank));
  if (!spec.partial.empty()) throw ValueError(fmt::format("[{}] a Spec with partial sums, which make themselves", who));
  Layout layout = whole_layout(rank);
  for (size_t d = 0; d < spec.dims.size(); ++d) {
    for (const std::string& name : spec.dims[d].list()) {
      const AxisMask axis = scope.mask(std::vector{name}, who);
      if (!innermost(layout.dims[d], axis))
        throw ValueError(
            fmt::format("[{}] axes along a dimension stand in the order of the mesh; '{}' does not", who, name));
      layout.dims[d] |= axis;
    }
  }
  return layout;
}

Shape part_shape(const Shape& whole, const Layout& layout, const MeshScope& scope) {
  Shape part = whole;
  for (int d = 0; d < whole.rank(); ++d) {
    const int64_t ranks = scope.size(layout.dims[static_cast<size_t>(d)]);
    if (whole[d] % ranks != 0)
      throw ShapeError(fmt::format("[auto_shard] {} ranks do not divide axis {} of {}", ranks, d, whole.str()));
    part = part.with(d, whole[d] / ranks);
  }
  return part;
}

Tensor moved(const Tensor& part, const Layout& from, const Layout& to) {
  const MeshScope& scope = MeshScope::required("auto_shard");
  Tensor x = part;
  for (const Step& step : planned(from, to)) x = taken(x, step, scope);
  return x;
}

// As the schedules send (schedules.h): a sum by parts, each part to its owner and back.
double bytes_of_move(const Shape& whole, size_t element_bytes, const Layout& from, const Layout& to,
                     const MeshScope& scope) {
  double bytes = static_cast<double>(whole.numel()) * static_cast<double>(element_bytes), sent = 0;
  for (const AxisMask dim : from.dims) bytes /= static_cast<double>(scope.size(dim));
  for (const Step& step : planned(from, to)) {
    const auto n = static_cast<double>(scope.size(step.axes));
    if (step.kind == Kind::sum) sent += 2 * bytes * (n - 1) / n;
    if (step.kind == Kind::scatter || step.kind == Kind::swap) sent += bytes * (n - 1) / n;
    if (step.kind == Kind::gather) sent += bytes * (n - 1);
    if (step.kind == Kind::gather) bytes *= n;
    if (step.kind == Kind::cut || step.kind == Kind::scatter) bytes /= n;
  }
  return sent;
}

}  // namespace heddle::distributed
