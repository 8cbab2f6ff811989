// The primitive rows that are not elementwise: what each means, and what its Attrs hold.
//
// Purpose: the contract between the functions that record nodes, the passes and lowering, the reference evaluator and
// the gradient rules. Fused rows never reach lowering: the simplifier replaces them by their decomposition. Thread
// safety: references to immutable rows.
//
// Attributes are named by the structs and functions of core/op/attrs.h.
//
// clang-format off
// name             kind         inputs          attrs: numbers               shape rule / meaning
// leaf             leaf         -               -                            storage + view, or a host value
// full             constant     -               real = value                 every element is value, in dtype
// iota             constant     -               RangeAttrs                   start + step * index[axis]
// cast             elementwise  x               -                            node dtype
// where            elementwise  c (bool), x, y  -                            c ? x : y; all the same shape
// sum prod max min reduce       x               axes_of: ascending           axes dropped; dtype of x (i64 already for
//                                                                            integer sums)
// argmax argmin    reduce       x               axis_of                      axis dropped; i64; first on ties; a NaN wins
// reshape          movement     x               -                            node shape, same numel
// permute          movement     x               order_of                     shape[i] = x.shape[order[i]]
// expand           movement     x               -                            same rank; dims of size 1 grow to node shape
// slice            movement     x               SliceAttrs                   count = node shape; start + i * step
// flip             movement     x               axes_of: ascending
// pad              movement     x               border_of; real = value      node shape = before + x.shape + after
// concat           movement     x0..xn-1        axis_of
// take             index        x, i (i32/i64)  axis_of                      x.shape[:axis] + i.shape + x.shape[axis+1:]
// gather           index        x, i            axis_of                      node shape = i.shape; rank of x; other dims
//                                                                            of i <= x's
// scatter_rows     body         base, i, u      -                            base (R, C...), i (n), u (n, C...): base +
//                                                                            rows of u
// copy_rows        body         x, i, u         axis_of                      x, rows along the axis that i (n) names
//                                                                            replaced by u's n; the last of equal wins
// argsort          body         x               SortAttrs                    last axis kept long, i32: the first indices
//                                                                            in order; stable; NaN largest
// cumsum cumprod   body         x               ScanAttrs                    x.shape; dtype of x (i64 already for integers)
// cummax           body         x               ScanAttrs                    the largest so far; NaN from the first on;
//                                                                            floats, i32, i64
// logcumsumexp     body         x               ScanAttrs                    log of the running sum of e^x; f32, f64
// conv             body         x, w            ConvAttrs                    x (N, C, r sizes), or channels last; w (O,
//                                                                            C/groups, kernel[r]); images of O channels;
//                                                                            parts as below, of runs of channels
// conv_input_grad  body         g, w            ConvAttrs                    conv's gradient by x: node shape = x's, g has
//                                                                            the shape of conv's result; parts as below
// conv_weight_grad body         x, g            ConvAttrs                    conv's gradient by w: node shape = w's; with
//                                                                            parts > 0 (specialize() makes it) a leading
//                                                                            dimension of partial sums
// matmul           contraction  a, b            -                            (B..., M, K) x (B..., K, N); batch dims
//                                                                            equal; same float or int dtype
// random_uniform   random       key (i32, {4})  -                            f32 in [0, 1): core/graph/philox.h
// attention...     body                         AttentionAttrs               core/functions/nn/attention_problem.h
// softmax log_softmax logsumexp  fused  x       axis_of                      logsumexp drops the axis
// cross_entropy    fused        logits (N, C), targets (N)  -                per-row losses (N), f32/f64
// stop_gradient    elementwise  x               -                            x; the simplifier removes it
// assign           effect       target, value   -                            value; writes it into the target's storage
// cholesky lu solve_triangular linear_solve det qr eigh svd   fused          core/functions/linalg/linalg_rows.h
// custom           fused                                                     core/graph/custom.h
// loop_arg, loop, loop_result, while_result   leaf, effect                   core/graph/loop_node.h
// psum pmax pmin   collective   x               CollectiveAttrs              x.shape; over the ranks of a group: those
//                                                                            that differ along the axes alone, n of them
// all_gather       collective   x               CollectiveAttrs              (n, x.shape): of every place in its order
// reduce_scatter   collective   x (n, C...)     CollectiveAttrs              (C...): the own part, summed over the group
// all_to_all       collective   x (n, C...)     CollectiveAttrs              part i goes to place i; a part from each
// ppermute         collective   x               CollectiveAttrs: pairs       what the place got; zeros for who gets none
// pvary            collective   x               CollectiveAttrs              x, as what may differ along the axes
// clang-format on
//
// Index semantics of take and gather: a negative index counts from the end once; then it is clamped into range.
// scatter_rows and copy_rows ignore indices outside [0, R). The kernel of copy_rows takes updates alone
// (BodyRow::updates in core/ir/bodies.h); as a value of its own it is decomposed. A row of kind body is one
// hand-written kernel (shaders/*.hk) with one result; its lowering is a line in core/lower/body_lowering.cpp and its
// reference in core/reference/reference_bodies.cpp.
#pragma once

#include "heddle/core/op/op.h"

namespace heddle::ops {

extern const OpDef leaf_op, full_op, iota_op, random_uniform_op;
extern const OpDef cast_op, where_op, stop_gradient_op;
extern const OpDef sum_op, prod_op, max_op, min_op, argmax_op, argmin_op;
extern const OpDef reshape_op, permute_op, expand_op, slice_op, flip_op, pad_op, concat_op;
extern const OpDef take_op, gather_op, scatter_rows_op, copy_rows_op, argsort_op, cumsum_op, cumprod_op, cummax_op,
    logcumsumexp_op;
extern const OpDef matmul_op, conv_op, conv_input_grad_op, conv_weight_grad_op;
extern const OpDef attention_op, attention_query_gradient_op, attention_key_gradient_op, attention_bias_gradient_op;
extern const OpDef softmax_op, log_softmax_op, logsumexp_op, cross_entropy_op, custom_op, assign_op;
extern const OpDef cholesky_op, lu_op, solve_triangular_op, linear_solve_op, det_op, qr_op, eigh_op, svd_op;
extern const OpDef loop_arg_op, loop_op, loop_result_op, while_result_op;
extern const OpDef psum_op, pmax_op, pmin_op, all_gather_op, reduce_scatter_op, all_to_all_op, ppermute_op, pvary_op;

// Elementwise rows of the table by identity, e.g. ops::add_op.
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) extern const OpDef name##_op;
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) extern const OpDef name##_op;
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY

}  // namespace heddle::ops

namespace heddle {

// True for movement rows that are pure views (reshape, permute, expand, slice, flip).
inline bool is_view_op(const OpDef& op) {
  return &op == &ops::reshape_op || &op == &ops::permute_op || &op == &ops::expand_op || &op == &ops::slice_op ||
         &op == &ops::flip_op;
}

// True for rows that send and receive: pvary alone is of their kind and does not.
inline bool communicates(const OpDef& op) { return op.kind == OpKind::collective && &op != &ops::pvary_op; }

}  // namespace heddle
