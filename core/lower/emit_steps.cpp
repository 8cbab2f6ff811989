// What an emitter knows of its variables' values: where the text may depend on sizes, it prints short factors and
// distances as they are, and lanes take several neighbours (core/lower/lower_elementwise_steps.cpp).
#include <fmt/format.h>

#include <cstdlib>

#include "heddle/core/lower/emit.h"

namespace heddle {

std::string Emitter::factor(int variable, int64_t coefficient) {
  constexpr int64_t largest = 8;
  if (variable == told_ && std::abs(coefficient) <= largest) return fmt::format("({})", coefficient);
  return constants_.coefficient(variable, coefficient);
}

// A constant as one that was printed before and how far it is from it: rows of a window lie anywhere, the elements of
// one row side by side.
std::string Emitter::distance(int64_t constant) {
  constexpr int64_t farthest = 8;
  for (const int64_t anchor : anchors_) {
    if (constant == anchor) return constants_.coefficient(-1, constant);
    if (std::abs(constant - anchor) > farthest) continue;
    return anchor == 0 ? fmt::format("({})", constant)
                       : fmt::format("{} + ({})", constants_.coefficient(-1, anchor), constant - anchor);
  }
  anchors_.push_back(constant);
  return constants_.coefficient(-1, constant);
}

bool Emitter::knows_extents() const {
  return group_.kind == GroupKind::elementwise && !varying_ && !joined_ && section_ == nullptr;
}

int64_t Emitter::extent(int variable) const {
  if (!knows_extents()) return 0;
  if (const auto placed = steps_.find(variable); placed != steps_.end()) return placed->second.extent;
  return variable < group_.domain.rank() ? group_.domain[variable] : 0;
}

// The least and the largest value of an index, where they are known.
std::optional<std::pair<int64_t, int64_t>> Emitter::values_of(const Index& index) const {
  if (!index.affine() || !knows_extents()) return std::nullopt;
  std::pair range(index.constant, index.constant);
  for (const auto& [variable, coefficient] : index.terms) {
    const int64_t size = extent(variable);
    if (size == 0) return std::nullopt;
    (coefficient < 0 ? range.first : range.second) += coefficient * (size - 1);
  }
  return range;
}

bool Emitter::runs_over(const Index& index, int64_t size) const {
  if (!index.affine() || index.terms.size() != 1) return false;
  const auto [variable, coefficient] = index.terms.front();
  const auto placed = steps_.find(variable);
  return placed != steps_.end() && placed->second.step == 1 && coefficient == 1 &&
         index.constant == placed->second.start && group_.domain[variable] == size;
}

Index Emitter::in_steps(const Index& index) const {
  Index out = index;
  for (const auto& [variable, steps] : steps_) {
    const int64_t factor = index.coefficient(variable);
    if (factor == 0) continue;
    out.constant += factor * steps.start;
    out = affine_sum(out, Index::variable(variable), factor * (steps.step - 1));
  }
  return out;
}

}  // namespace heddle
