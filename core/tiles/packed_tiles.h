// Tunables of shaders/packed_matmul.hk, packed_matmul_grad.hk and unpack_blocks.hk by class of device and shape.
//
// Purpose: one place for the defaults; tuned() has the last word on products. Invariants: what is returned passes the
// bodies' `require` rules. Thread safety: pure but for the tuning table.
#pragma once

#include "heddle/core/base/ggml_types.h"
#include "heddle/core/contract/device_info.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

inline constexpr int64_t packed_stretch = 32;  // elements that the bodies unpack at a time
inline constexpr int64_t few_packed_rows = 8;  // of the left operand; more have a schedule of their own

// The number of a type of blocks in the bodies (BLOCKS).
int64_t block_number(GgmlType type);

// Whether so many rows of x, of `depth` elements, are multiplied with blocks that a kernel unpacks: any on a GPU and on
// a CPU driver of OpenCL.
bool matmul_packed_pays(const Caps& caps, int64_t rows, int64_t depth);
Bindings pick_matmul_packed(const Caps& caps, GgmlType type, int64_t rows, int64_t columns, int64_t depth);
// Of the work item with the most, all loops together.
int64_t matmul_packed_iterations(const Bindings& tunables, int64_t depth);
// The gradient by x, whose sums have `depth` terms.
bool matmul_packed_grad_takes(const Caps& caps, int64_t depth);
Bindings pick_matmul_packed_grad(const Caps& caps, GgmlType type, int64_t rows, int64_t columns, int64_t depth);
int64_t matmul_packed_grad_iterations(const Bindings& tunables, int64_t rows, int64_t depth);
Bindings pick_unpack_blocks(const Caps& caps);

}  // namespace heddle
