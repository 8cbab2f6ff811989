// Integers that came from the host and may serve as indices: so that the guard looks at them there, at no cost to the
// device.
//
// Purpose: labels, tokens and picks mostly come from from_vector() or from_batch(). What was uploaded is remembered
// beside its storage, and a call that indexes by it, or a replay of a recorded step whose argument it is, compares the
// numbers on the host. Invariants: what is known of a storage is forgotten with it, and void as soon as something else
// is written to it (Storage::version). Tensors of more than 2^20 elements are not remembered. Thread safety: all
// functions lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heddle/core/graph/node.h"

namespace heddle {

struct HostIndices {
  std::vector<int64_t> values;
  int64_t low = 0, high = 0;  // the smallest and the largest
};

// `count` integers of dtype (others are not remembered), just written to the storage from its start.
void note_host_indices(const StoragePtr& storage, const void* data, size_t count, DType dtype);
// Of the whole storage; null where nothing is known.
std::shared_ptr<const HostIndices> host_indices(const StoragePtr& storage);

// Which uploaded integers a tensor holds, in row-major order: [first, first + its elements) of the storage's. Seen
// through reshape() and casts between i32 and i64.
struct HostSource {
  StoragePtr storage;
  std::shared_ptr<const HostIndices> all;
  size_t first = 0;
};
std::optional<HostSource> host_source(const NodePtr& node);

}  // namespace heddle
