// Lowering: groups -> kernels with their launch.
//
// Purpose: chooses the loop structure of each group for a class of device and prints it through the Emitter. Two
// machine models share every path: on GPUs (and drivers that map lanes to vector registers) a lane is a work item; on
// CPU drivers whose groups are loops, a group has one work item and lanes are the iterations of an inner loop the
// compiler vectorises. Invariants: one kernel per group; kernels of empty groups are left out. Thread safety: pure
// functions.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/contract/grid.h"
#include "heddle/core/lower/emit.h"
#include "heddle/core/simplify/passes.h"

namespace heddle {

struct LowerOptions {
  // Loop lanes (true) or work-item lanes; default by device: loop lanes on Machine::cpu_loops.
  bool loop_lanes = false;
  // order: kernels in the order that needs least memory (core/schedule/kernel_order.h), else as they were scheduled;
  // horizontal: kernels of one text become one launch (core/lower/horizontal.h).
  PassSet passes = PassSet::all();
  // Lower a group as one of many joined rows; set by fuse_horizontally().
  bool joined = false;
};
LowerOptions lower_options(const Caps& caps, PassSet passes);

// Throws LimitError when a group exceeds what the device can launch or address.
std::vector<LoweredKernel> lower(const ScheduledGraph& scheduled, const Caps& caps, const LowerOptions& options);

// ---- one per kind (lower_*.cpp)
struct LowerInput {
  const ScheduledGraph& scheduled;
  const Group& group;
  const Caps& caps;
  const LowerOptions& options;
};
LoweredKernel lower_group(const LowerInput& in);
LoweredKernel lower_elementwise(const LowerInput& in);
LoweredKernel lower_reduce(const LowerInput& in);
LoweredKernel lower_loop(const LowerInput& in);
LoweredKernel lower_matmul(const LowerInput& in);  // and one per body: core/lower/body_lowering.h

// ---- shared by them
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
// Fills source and launch from the emitter's text; `groups` folded over two grid dimensions. A joined emitter gives a
// kernel of one joined row.
LoweredKernel finish(Emitter& emitter, const LowerInput& in, std::array<uint32_t, 3> lanes, int64_t groups);

}  // namespace heddle
