// Lowering of hand-written bodies: one function a row of kind `body` (core/ir/bodies.h).
//
// Invariants: every OpDef of kind body has exactly one line in body_lowering.cpp, or is a user's. Thread safety: pure
// functions.
#pragma once

#include "heddle/core/lower/lower_input.h"

namespace heddle {

// The kernel of a body's group, by its op. std::logic_error for an op that is no body.
LoweredKernel lower_body(const LowerInput& in);

LoweredKernel lower_unpack_blocks(const LowerInput& in);
LoweredKernel lower_matmul_packed(const LowerInput& in);  // and its gradient
LoweredKernel lower_scatter_rows(const LowerInput& in);
LoweredKernel lower_copy_rows(const LowerInput& in);
LoweredKernel lower_attention(const LowerInput& in);
LoweredKernel lower_attention_gradient(const LowerInput& in);
LoweredKernel lower_conv(const LowerInput& in);  // and its two gradients
LoweredKernel lower_sort_blocks(const LowerInput& in);
LoweredKernel lower_sort_merge(const LowerInput& in);
LoweredKernel lower_scan(const LowerInput& in);
LoweredKernel lower_segment_add(const LowerInput& in);
LoweredKernel lower_cholesky_block(const LowerInput& in);
LoweredKernel lower_lu_panel(const LowerInput& in);
LoweredKernel lower_triangular_block(const LowerInput& in);
LoweredKernel lower_join_blocks(const LowerInput& in);
LoweredKernel lower_qr_panel(const LowerInput& in);
LoweredKernel lower_condensing(const LowerInput& in);  // to tridiagonal or bidiagonal form
LoweredKernel lower_sweeps(const LowerInput& in);      // of either form
LoweredKernel lower_rotate_rows(const LowerInput& in);
LoweredKernel lower_rotate(const LowerInput& in);
LoweredKernel lower_user_body(const LowerInput& in);

}  // namespace heddle
