// The rows over packed blocks (core/base/ggml_types.h): what each means, and what its Attrs hold.
//
//   row                       kind  inputs       attrs          meaning
//   unpack_blocks             body  blocks (u8)  block_attrs()  (..., bytes) -> (..., elements) f32
//   matmul_packed             body  x, blocks    block_attrs()  x (..., K) f32, blocks (N, bytes of K) u8: x times the
//                                                               unpacked blocks, transposed: (..., N) f32; rank of x
//                                                               at least 2
//   matmul_packed_input_grad  body  g, blocks    block_attrs()  its gradient by x: g (..., N) f32 times the unpacked
//                                                               blocks: (..., K) f32
//
// Invariants: as core/op/primitives.h; a product that no kernel takes is decomposed. Thread safety: references to
// immutable rows; pure functions.
#pragma once

#include "heddle/core/base/ggml_types.h"
#include "heddle/core/op/op.h"

namespace heddle {

namespace ops {
extern const OpDef unpack_blocks_op, matmul_packed_op, matmul_packed_input_grad_op;
}  // namespace ops

inline GgmlType block_type_of(const Attrs& attrs) { return static_cast<GgmlType>(attrs.ints[0]); }
inline Attrs block_attrs(GgmlType type) { return {{static_cast<int64_t>(type)}}; }

}  // namespace heddle
