// NeighbourLists: a list of each of two ranks of one host, in memory that both have, instead of messages.
//
// Purpose: where devices compute in the host's memory a rank's kernels write its list there and read that of the other
// rank where it lies: nothing is copied, and no thread but the caller's takes part. There are two lots of lists, which
// updates take in turns, so that a rank may write the next update's while the other one still reads the last.
// Invariants: both ranks make the same calls in the same order; lists are f32 (n). Errors: those of
// distributed/errors.h. Thread safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/train/replicas.h"

namespace heddle {
class Storage;
}

namespace heddle::train {

class NeighbourLists {
 public:
  static constexpr size_t lots = 2, ranks = 2;
  // Of longer lists messages that hide behind the backward pass cost little, and memory counts.
  static constexpr int64_t most_bytes = int64_t{64} << 20;

  // Zeros. All ranks call it; null for all where one of them cannot: there are not two of one kind on one host, a
  // device does not take memory of others', evaluations are looked into (HEDDLE_EAGER, HEDDLE_CHECK_NUMBERS), lists are
  // longer than most_bytes, or HEDDLE_SHARED_LISTS is 0.
  static std::unique_ptr<NeighbourLists> open(Replicas& replicas, DeviceContext& device, int64_t size);
  ~NeighbourLists();
  NeighbourLists(const NeighbourLists&) = delete;
  NeighbourLists& operator=(const NeighbourLists&) = delete;

  // Of a lot and a rank; the other rank's is read alone. They are assigned in place: nobody else keeps the storage.
  Tensor& list(size_t lot, int rank) { return tensors_[lot][static_cast<size_t>(rank)]; }
  std::span<float> values(size_t lot, int rank) const;

  // This rank's list of the lot is written, by work that has finished. Waits until the other's is. The next call is of
  // the other lot.
  void meet(size_t lot);

 private:
  struct Memory;
  NeighbourLists(Replicas& replicas, std::shared_ptr<Memory> memory, int64_t size);
  bool adopt(DeviceContext& device);
  void check_place(size_t lot);

  Replicas& replicas_;
  std::shared_ptr<Memory> memory_;
  int64_t size_;
  uint64_t meetings_ = 0;
  std::array<std::array<Tensor, ranks>, lots> tensors_;
  std::array<const Storage*, lots> own_{};  // that this rank's lists have to stay in
};

}  // namespace heddle::train
