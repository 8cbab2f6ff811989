// What the kernel of copy_rows asks of its operands, for the planner and for lowering.
// Thread safety: pure functions.
#pragma once

#include <optional>

#include "heddle/core/ir/ir.h"

namespace heddle {

// Rows along `axis` as (outer, outer, rows, elements), with the elements of a row one behind the other; nothing where
// no strides say that.
std::optional<View> copied_rows(const View& view, int axis);
// Whether an operand is read as it lies.
bool copy_rows_accepts(const IrNode& node, size_t input, const View& view);
// Whether there is a kernel: every written element looks at the indices behind its own, so there must be few.
bool copy_rows_takes(const Node& node);

}  // namespace heddle
