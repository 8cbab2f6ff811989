// LowerInput: what every lowering of a group takes (lower_*.cpp). Thread safety: plain values.
#pragma once

#include "heddle/core/contract/device_info.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"
#include "heddle/core/lower/section.h"
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

struct LowerInput {
  const ScheduledGraph& scheduled;
  const Group& group;
  const Caps& caps;
  const LowerOptions& options;
  const Section* section = nullptr;  // the part of the group that is lowered; null: all of it
};

}  // namespace heddle
