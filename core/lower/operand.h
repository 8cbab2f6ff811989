// Operands of hand-written bodies: a view of memory, perhaps with a cheap function applied to each element.
// Thread safety: pure functions.
#pragma once

#include <string>

#include "heddle/core/lower/emit.h"

namespace heddle {

struct Operand {
  SlotRef slot;
  View view;
  DType dtype = DType::f32;
  std::string function;  // over the variable given to resolve_operand; that variable itself when there is none
};

// Follows the operand down through views and inlined unary vertices to memory.
Operand resolve_operand(const ScheduledGraph& scheduled, const Group& group, int id, const std::string& variable);

// The elements of the operand that belong to the section, counted from what is bound of its memory; notes them.
// `variables`: of each dimension, or -1 (core/lower/section.h).
void enter_operand(const Section& section, Operand& operand, const std::vector<int>& variables);

// A body's group whose result lies in its first operand's memory: it writes only what differs (BodyRow::updates).
bool updates_operand(const ScheduledGraph& scheduled, const Group& group);

}  // namespace heddle
