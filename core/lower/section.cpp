#include "heddle/core/lower/section.h"

#include <algorithm>

namespace heddle {

int Touched::pick_variable(int vertex) {
  const auto known = std::find(picks.begin(), picks.end(), vertex);
  const auto number = static_cast<int>(known - picks.begin());
  if (known == picks.end()) picks.push_back(vertex);
  return first_pick_variable + number;
}

int64_t Section::first_of(int variable) const {
  const auto known = first.find(variable);
  return known == first.end() ? 0 : known->second;
}

int64_t Section::skipped(SlotRef slot, int64_t element_bytes) const {
  const auto known = begins.find(slot);
  return known == begins.end() ? 0 : static_cast<int64_t>(known->second) / element_bytes;
}

void note_divisible(const Section* section, const Shape& shape) {
  for (int d = 0; section != nullptr && d < shape.rank(); ++d) section->touched->divisible.insert(d);
}

Shape within(const Section* section, const Shape& shape, int variable) {
  Shape inside = shape;
  for (int d = 0; section != nullptr && d < shape.rank(); ++d) {
    const auto known = section->size.find(variable + d);
    if (known != section->size.end()) inside = inside.with(d, known->second);
  }
  return inside;
}

View within(const Section& section, View view, const std::vector<int>& variables) {
  for (size_t d = 0; d < variables.size(); ++d) {
    const auto known = section.size.find(variables[d]);
    if (known == section.size.end() || view.shape[static_cast<int>(d)] == 1) continue;
    view.offset += section.first_of(variables[d]) * view.strides[d];
    view.shape = view.shape.with(static_cast<int>(d), known->second);
  }
  return view;
}

void note_view(const Section& section, SlotRef slot, DType dtype, const View& view, const std::vector<int>& variables) {
  Index index = Index::literal(view.offset);
  int64_t depth = 0;  // from the first to the last element along all dimensions without a variable
  for (size_t d = 0; d < variables.size(); ++d) {
    const int64_t size = view.shape[static_cast<int>(d)], stride = view.strides[d];
    if (size == 1 || stride == 0) continue;
    if (variables[d] >= 0)
      index = affine_sum(index, Index::variable(variables[d]), stride);
    else if (stride < 0)
      index.constant += stride * (size - 1);
    if (variables[d] < 0) depth += std::abs(stride) * (size - 1);
  }
  Index end = index.plus(depth);
  section.touched->touches.push_back({slot, static_cast<int64_t>(size_of(dtype)), std::move(index)});
  if (depth > 0) section.touched->touches.push_back({slot, static_cast<int64_t>(size_of(dtype)), std::move(end)});
}

}  // namespace heddle
