// Layers whose weights lie in parts on the ranks along an axis of a mesh: tensor parallelism, for functions that every
// rank runs (distributed/shard_map.h).
//
//   nn::ColumnParallelLinear up(weight1, bias1, "tp");   // each rank: some of the outputs
//   nn::RowParallelLinear down(weight2, bias2, "tp");    // each rank: some of the inputs; one psum
//   y = down(gelu(up(x)));                               // x and y are the same on all ranks along tp
//
// Purpose: a layer is given the whole weights, which all ranks have alike, and keeps its rank's part as the parameter.
// What is sent, forward and backward, follows from which values vary along the axis (core/graph/mesh_scope.h): a column
// layer sums the gradient of its input, a row layer its result. Shoeybi et al. 2019, "Megatron-LM". Invariants: modules
// are handles (nn/module.h); parts vary along the axis, biases behind a sum do not. Errors: AxisError outside of
// shard_map and for axes that are not there; ShapeError for sizes that do not fit or that the ranks do not divide.
// Thread safety: none.
#pragma once

#include "heddle/core/functions/nn/loss.h"
#include "heddle/distributed/axis_names.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

// y = x W^T + b of the rank's rows of W (out, in) and b (out): x (..., in) gives (..., out / n), which varies.
class ColumnParallelLinear : public Module {
 public:
  ColumnParallelLinear(const Tensor& weight, const Tensor& bias, const distributed::AxisNames& axes);
  Tensor forward(const Tensor& x) override;

  Tensor weight;  // (out / n, in)
  Tensor bias;    // (out / n); undefined without

 private:
  distributed::AxisNames axes_;
};

// y = sum over ranks of x W^T, plus b (out), of the rank's columns of W (out, in): x (..., in / n), which varies, gives
// (..., out), which does not.
class RowParallelLinear : public Module {
 public:
  RowParallelLinear(const Tensor& weight, const Tensor& bias, const distributed::AxisNames& axes);
  Tensor forward(const Tensor& x) override;

  Tensor weight;  // (out, in / n)
  Tensor bias;    // (out), whole; undefined without

 private:
  distributed::AxisNames axes_;
};

// Rows of a table (rows, width), of which each rank has rows / n: as embedding(), by one psum.
class VocabParallelEmbedding : public Module {
 public:
  VocabParallelEmbedding(const Tensor& weight, const distributed::AxisNames& axes);
  Tensor forward(const Tensor& indices) override;  // (...), i32 or i64; equal on the ranks: (..., width), invariant

  Tensor weight;  // (rows / n, width)

 private:
  distributed::AxisNames axes_;
};

// The same as a function: `part` (rows / n, width) is the rank's rows, and varies along the axes.
Tensor vocab_parallel_embedding(const Tensor& indices, const Tensor& part, const distributed::AxisNames& axes,
                                Caller caller = Caller::current());

// The same for indices (n N, ...) of which each rank gets the rows of its N, by one reduce_scatter: (N, ..., width),
// which varies. ShapeError where the ranks do not divide the indices.
Tensor vocab_parallel_embedding_in_parts(const Tensor& indices, const Tensor& part, const distributed::AxisNames& axes,
                                         Caller caller = Caller::current());

// cross_entropy() of logits of which each rank has its classes: (N, classes / n), and targets (N) among all classes,
// equal on the ranks. Sends the rows' maxima and sums, not the logits. Without target smoothing; f32, f64.
Tensor vocab_parallel_cross_entropy(const Tensor& logits, const Tensor& targets, const distributed::AxisNames& axes,
                                    Reduction reduction = Reduction::mean, Caller caller = Caller::current());

}  // namespace heddle::nn
