// NeighbourLists: a list of each of two ranks of one host, in memory that both have, instead of messages.
//
// Purpose: where devices compute in the host's memory a rank's kernels write its list there and read that of the other
// rank where it lies: nothing is copied, and no message is sent. There are two lots of lists, which updates take in
// turns, so that a rank may write the next update's while the other one still reads the last. Where ranks are processes
// and the device's queue holds calls of the host's functions (core/device/host_calls.h) the queue itself waits for the
// other rank's list, and the caller goes on; else the caller waits, for its device first. Wishes, which no device
// knows, go from caller to caller. Invariants: both ranks make the same calls in the same order; lists are f32 (n);
// nothing is waited for once the lists are gone. Errors: those of distributed/errors.h. Thread safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/train/replicas.h"
#include "heddle/train/wishes.h"

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
  // longer than most_bytes, or HEDDLE_SHARED_LISTS is 0. `apart`: whether ranks are processes of their own, which is
  // asked where it is not said; threads of one may share the thread that their devices make calls by.
  static std::unique_ptr<NeighbourLists> open(Replicas& replicas, DeviceContext& device, int64_t size,
                                              std::optional<bool> apart = std::nullopt);
  ~NeighbourLists();
  NeighbourLists(const NeighbourLists&) = delete;
  NeighbourLists& operator=(const NeighbourLists&) = delete;

  // Of a lot and a rank; the other rank's is read alone. They are assigned in place: nobody else keeps the storage.
  Tensor& list(size_t lot, int rank) { return tensors_[lot][static_cast<size_t>(rank)]; }
  std::span<float> values(size_t lot, int rank) const;

  // Whether the device's queue waits.
  bool in_queue() const { return in_queue_; }

  // What was submitted writes this rank's list of the lot; what is submitted from here on reads both ranks'. The next
  // call is of the other lot.
  void meet(size_t lot, const Wishes& mine);
  // What any rank wishes since the last meeting: waits until the other one has called it, and where the queue waits now
  // and then for the device.
  Wishes agreed();
  // What a meeting in the queue failed with is thrown, also by agreed(): what was submitted behind it is void.
  void check() const;

 private:
  struct Memory;
  struct Meeting;
  NeighbourLists(Replicas& replicas, DeviceContext& device, std::shared_ptr<Memory> memory, int64_t size);
  bool adopt();
  void check_place(size_t lot);
  void stop_together();

  Replicas& replicas_;
  DeviceContext& device_;
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Meeting> meeting_;  // calls in the queue keep it
  int64_t size_;
  bool in_queue_ = false;
  Event last_, pause_;  // of the meetings in the queue: the last one, and one at which the caller waits
  uint64_t meetings_ = 0;
  std::array<std::array<Tensor, ranks>, lots> tensors_;
  std::array<const Storage*, lots> own_{};  // that this rank's lists have to stay in
};

}  // namespace heddle::train
