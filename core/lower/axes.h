// The loops of a generated kernel over neighbouring dimensions. Thread safety: one emitter is used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/lower/emit.h"

namespace heddle {

// A loop over merged neighbouring dimensions: the emitter's variable that carries it, and its extent.
struct Axis {
  int variable = 0;
  int64_t size = 1;
};
// Merges neighbouring dimensions of `shape` (variables from `first`) wherever every index printed so far allows it;
// sets the emitter's names: merged ones "", the others `prefix` + number. Dimensions of size 1 have no axis.
std::vector<Axis> merge_axes(Emitter& emitter, const Shape& shape, int first, const std::string& prefix);
// "int t_i1 = flat % c; ..." for all axes, from a flat index.
void split_index(Emitter& emitter, const std::vector<Axis>& axes, const std::string& flat);
int64_t extent(const std::vector<Axis>& axes);

}  // namespace heddle
