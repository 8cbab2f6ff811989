// Batching rules: what a row does when some of its inputs have a mapped axis more.
//
// Purpose: vmap (autograd/vmap.h) asks a rule at each node that depends on an example. Rules stand in batching_*.cpp;
// elementwise rows and reductions have one for all of the kind, rows with a decomposition fall back on it. Invariants:
// the mapped axis is always the first; a rule gives a tensor whose first axis is mapped and whose others are the node's
// shape. Thread safety: the table is made on first use and then only read.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heddle/autograd/vmap.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::autograd {

struct BatchCall {
  const Node& node;
  int64_t size = 0;  // of the mapped axis
  Randomness randomness = Randomness::different;
  std::vector<Tensor> in;  // mapped ones with their axis in front
  std::vector<bool> mapped;

  const Attrs& attrs() const { return node.attrs; }
  // Input i with the mapped axis, repeated where it has none.
  Tensor lifted(size_t i) const;
  // The node's shape, and that of input i for one example.
  Shape shape() const { return with_axis(node.shape); }
  const Shape& example(size_t i) const { return node.inputs[i]->shape; }
  Shape with_axis(const Shape& shape) const { return shape.inserted(0, size); }
  // The node's op over other inputs.
  Tensor record(const std::vector<Tensor>& inputs, Attrs attrs, const Shape& shape) const;
};

using BatchRule = Tensor (*)(const BatchCall& call);
struct BatchRow {
  BatchRule rule = nullptr;  // null: `reason` says why there is none
  std::string_view reason;
};
using BatchTable = std::unordered_map<const OpDef*, BatchRow>;

// The row for an op; null where its decomposition has to do, or nobody wrote one.
const BatchRow* find_batching(const OpDef& op);
// "yes", "by its decomposition", or the reason why not.
std::string batching_status(const OpDef& op);

// A body that a user wrote: his rule, or ValueError.
Tensor user_body_batched(const BatchCall& call);
void add_movement_batching(BatchTable& table);
void add_index_batching(BatchTable& table);
void add_contraction_batching(BatchTable& table);
void add_attention_batching(BatchTable& table);
void add_linalg_batching(BatchTable& table);
void add_collective_batching(BatchTable& table);
void add_custom_batching(BatchTable& table);

}  // namespace heddle::autograd
