#include "heddle/distributed/op_cut.h"

namespace heddle::distributed {
namespace {

AxisMask bit(size_t axis) { return AxisMask{1} << axis; }

}  // namespace

OpCut::OpCut(const Node& node, const std::vector<const Placed*>& inputs, const MeshScope& scope)
    : node_(node), inputs_(inputs), scope_(scope), factors_(factors_of(node)), axes_(scope.axes().size()) {
  Factors chosen(axes_, -1);
  choose(chosen, 0);
}

// Factors that the axis cuts already.
OpCut::Factors OpCut::candidates(size_t axis) const {
  Factors found;
  for (size_t f = 0; f < factors_.size(); ++f) {
    bool cuts = false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const int d = factors_[f].inputs[i];
      cuts = cuts || (d >= 0 && (inputs_[i]->layout.dims[static_cast<size_t>(d)] & bit(axis)) != 0);
    }
    if (cuts) found.push_back(static_cast<int>(f));
  }
  return found;
}

void OpCut::choose(Factors& chosen, size_t axis) {
  if (axis == axes_) return consider(chosen);
  for (const int factor : candidates(axis)) {
    chosen[axis] = factor;
    if (divides(chosen, factor)) choose(chosen, axis + 1);
  }
  chosen[axis] = -1;
  if (candidates(axis).empty() || best_.factors.empty()) choose(chosen, axis + 1);
}

// Whether the axes so far divide the factor's dimensions.
bool OpCut::divides(const Factors& chosen, int factor) const {
  AxisMask axes = 0;
  for (size_t a = 0; a < axes_; ++a) axes |= chosen[a] == factor ? bit(a) : 0;
  const int64_t ranks = scope_.size(axes);
  const Factor& f = factors_[static_cast<size_t>(factor)];
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (f.inputs[i] >= 0 && node_.inputs[i]->shape[f.inputs[i]] % ranks != 0) return false;
  }
  return f.result < 0 || node_.shape[f.result] % ranks == 0;
}

void OpCut::consider(const Factors& chosen) {
  double bytes = 0;
  for (size_t i = 0; i < inputs_.size(); ++i)
    bytes += bytes_of_move(node_.inputs[i]->shape, size_of(node_.inputs[i]->dtype), inputs_[i]->layout,
                           input_layout(i, chosen), scope_);
  Layout result = result_layout(chosen), added = result;
  result.partial = reduced(Factor::Reduction::sum, chosen) | reduced(Factor::Reduction::max, chosen) |
                   reduced(Factor::Reduction::min, chosen);
  added.partial = 0;
  bytes += bytes_of_move(node_.shape, size_of(node_.dtype), result, added, scope_);
  if (bytes < best_.bytes) best_ = {chosen, bytes};
}

Layout OpCut::input_layout(size_t i, const Factors& chosen) const {
  Layout layout = whole_layout(node_.inputs[i]->shape.rank());
  for (size_t a = 0; a < axes_; ++a) {
    const int d = chosen[a] < 0 ? -1 : factors_[static_cast<size_t>(chosen[a])].inputs[i];
    if (d >= 0) layout.dims[static_cast<size_t>(d)] |= bit(a);
  }
  return layout;
}

Layout OpCut::result_layout(const Factors& chosen) const {
  Layout layout = whole_layout(node_.shape.rank());
  for (size_t a = 0; a < axes_; ++a) {
    const int d = chosen[a] < 0 ? -1 : factors_[static_cast<size_t>(chosen[a])].result;
    if (d >= 0) layout.dims[static_cast<size_t>(d)] |= bit(a);
  }
  layout.partial = reduced(Factor::Reduction::sum, chosen);
  return layout;
}

AxisMask OpCut::reduced(Factor::Reduction reduction, const Factors& chosen) const {
  AxisMask axes = 0;
  for (size_t a = 0; a < axes_; ++a) {
    if (chosen[a] < 0) continue;
    const Factor& factor = factors_[static_cast<size_t>(chosen[a])];
    if (factor.result < 0 && factor.reduction == reduction) axes |= bit(a);
  }
  return axes;
}

}  // namespace heddle::distributed
