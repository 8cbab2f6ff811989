// The attention rows: what their nodes hold. Internal to core, autograd and nn; their decompositions are in
// decompose_attention.cpp.
//
// Purpose: one reading of attributes and inputs for the public function, the reference, the gradient rules and
// lowering. Inputs in order: q (B, H, M, D), k (B, J, N, D), v (B, J, N, E) of one dtype T; then as attrs say: bias (B
// or 1, H or 1, M or 1, N or 1), mask (B, N) bool, lengths (B) i32, key (4) i32; then for the gradient rows: the
// cotangent of the result (B, H, M, E) in T, the result's second part (B H M parts) in T, and delta (B, M, H) f32 (f64
// for T f64). Attributes: AttentionAttrs (core/op/attrs.h); drop is the probability of dropout.
// Results: attention is flat in T: (B, M, H, E), then per (b, h, m) the logarithm of the row's sum of exponentials,
// +infinity for a row without keys, in `parts` elements: itself in f32 and f64; in f16 and bf16 the rounded 64th, and
// twice what rounding lost of it. With splits > 1 (made by specialize() alone) everything stands once per range of
// keys, in f32. attention_query_gradient is (B, M, H, D); attention_key_gradient flat (B, N, J, D), then (B, N, J, E)
// for the values; attention_bias_gradient has the bias's shape, but all N keys. A gradient row is a function of q, k,
// v, bias, cotangent and delta: the logarithms are those of attention and have no gradient. Invariants: query head h
// reads key head h / (H / J). Thread safety: pure functions.
#pragma once

#include <span>

#include "heddle/core/graph/node.h"

namespace heddle {

struct AttentionProblem {
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, size = 0, value_size = 0;
  bool causal = false;
  // Positions among the inputs; -1: not there.
  int bias = -1, mask = -1, lengths = -1, key = -1, cotangent = -1, stats = -1, delta = -1;
  int64_t splits = 1;
  double scale = 1, drop = 0;
  int parts = 1;

  int64_t group() const { return key_heads == 0 ? 1 : heads / key_heads; }
  int64_t results() const { return batch * queries * heads * value_size; }  // elements before the logarithms
  int64_t logarithms() const { return batch * heads * queries * parts; }
};

AttentionProblem attention_problem(const Attrs& attrs, std::span<const Shape> inputs, DType t);
AttentionProblem attention_problem(const Node& node);

// Whether shaders/attention.hk computes such a row: f32, f16 or bf16, heads of at most 256 elements, nothing empty.
// Others are computed by their decomposition.
bool attention_has_kernel(const AttentionProblem& problem, DType t);

}  // namespace heddle
