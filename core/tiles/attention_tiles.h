// pick_attention, pick_attention_gradient: the default schedules of shaders/attention.hk and attention_backward.hk for
// a device and a problem.
//
// Purpose: one table of measured defaults by device class; the tuner starts from it. Invariants: the result is accepted
// by KernelFile::instantiate and gives right results for any sizes of the same `size`, features and dtypes. Thread
// safety: pure.
#pragma once

#include <cstdint>

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

struct AttentionSizes {
  int64_t batch = 1, heads = 1, group = 1;  // group: query heads that share a key head
  int64_t queries = 1, keys = 1;
  int64_t size = 64;         // of the longer of a key and a value
  DType dtype = DType::f32;  // of queries, keys and values
  bool causal = false, bias = false, mask = false, lengths = false, dropout = false;
};

// Values for KernelFile::Options::tunables, and for KernelFile::groups.
Bindings pick_attention(const Caps& caps, const AttentionSizes& sizes);

// Ranges of keys that attention is computed for one by one (core/specialise/specialize_attention.cpp joins them); 1:
// all at once. More than one where the queries alone do not keep the device busy, and where a driver ends long loops.
// Does not depend on tuning: the graph is built on it.
int64_t pick_attention_splits(const Caps& caps, const AttentionSizes& sizes);
// The fewest ranges that the driver's loops allow, for any number of keys by one schedule.
int64_t least_attention_splits(const Caps& caps, const AttentionSizes& sizes, int64_t keys);
// Keys of each of `splits` ranges but the last: a multiple of 4.
int64_t attention_chunk(int64_t keys, int64_t splits);
// Whether query heads that share a key head should be rows of one problem when there is one query: their keys are then
// read once.
bool stack_attention_heads(const Caps& caps, const AttentionSizes& sizes);

// Whether the kernel beats the unfused graph: not for few queries that share keys on lavapipe, where a matmul loads the
// keys once for all of them (8 heads, 4096 keys of 64: 1.7 ms against 4.2).
bool attention_pays(const Caps& caps, const AttentionSizes& sizes);

// The gradient of queries (0), of keys and values (1), of all three (3), or of the bias (2), which is summed over what
// reduce_... name.
struct AttentionGradient {
  int which = 0;
  bool reduce_batch = false, reduce_heads = false, reduce_queries = false;
};
// Whether the gradients of queries, keys and values should be one kernel: it computes the scores once instead of twice,
// but one work item owns a key head.
bool attention_gradients_at_once(const Caps& caps, const AttentionSizes& sizes);
Bindings pick_attention_gradient(const Caps& caps, const AttentionSizes& sizes, const AttentionGradient& gradient);

// Of the work item with the most, as Caps::max_loop_iterations counts: for these tunables and at most `keys` columns.
int64_t attention_iterations(const Bindings& tunables, int64_t columns, int64_t size);

}  // namespace heddle
