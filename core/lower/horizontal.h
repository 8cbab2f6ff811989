// Horizontal fusion: many independent kernels of one text become one launch.
//
// Purpose: an optimizer over two hundred tensors, or the norms of their gradients, is two hundred kernels that differ
// in sizes and addresses only. They are lowered once more as *joined rows*: each work group looks up in a table which
// joined row it belongs to, and the joined row's row gives the numbers that would be launch constants and, per buffer,
// the element at which the joined row's tensor starts inside the range that is bound for all of them. So the text stays
// that of a lone kernel, its inner loop too, and the number of bindings does not grow with the number of tensors. What
// lies in one block of the allocator or of the arena shares a binding; joined rows in other blocks, or too far apart
// for one binding, are further launches of the same kernel, found when the graph is bound to memory
// (core/run/joined_launch.h). Invariants: joined rows of one launch do not depend on each other; none waits for what
// another early output needs, or while that is computed (core/schedule/early_order.h); only kernels whose temporaries
// are small are joined, so that the arena does not grow, and only those that read small temporaries wait for others.
// Thread safety: pure functions.
#pragma once

#include "heddle/core/lower/lower_input.h"

namespace heddle {

constexpr size_t most_joined_numbers = 96;  // in a row of the table

// Reorders and joins `kernels` (groups[i] is the group of kernel i); those that have no equal stay as they are.
// `lower_group` lowers one of them anew (core/lower/lower.cpp).
std::vector<LoweredKernel> fuse_horizontally(const ScheduledGraph& scheduled, std::vector<LoweredKernel> kernels,
                                             const std::vector<const Group*>& groups, const Caps& caps,
                                             const LowerOptions& options,
                                             LoweredKernel (*lower_group)(const LowerInput& in));

// Turns the text of one joined row, with `constants` numbers t_c0.. and a base t_o0.. for each buffer, into a kernel
// that reads them from a table:
//   one i32 per work group: where its joined row's row starts; then the rows: first work group, bases, numbers.
void make_joined(KernelSource& source, size_t constants);

}  // namespace heddle
