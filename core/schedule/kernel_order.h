// The order of kernels: what may come before what, and the order that needs little memory.
//
// Purpose: groups come in the order of the recorded graph, which computes all gradients of activations before the first
// weight gradient, and so keeps every activation to the end. Here a kernel that frees more than it takes runs as soon
// as it can. Invariants: an order respects every dependency through memory (a read after its write, a write after the
// reads of the old value); the chosen order never needs more memory for temporaries than the given one. Thread safety:
// pure functions.
#pragma once

#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"

namespace heddle {

// Which kernels wait for which, through the memory they touch, in the order they were given.
struct KernelDependencies {
  explicit KernelDependencies(const std::vector<LoweredKernel>& kernels);
  std::vector<std::vector<size_t>> after;  // by kernel: those that wait for it
  std::vector<int> waiting;                // by kernel: how many it waits for
};

// The temporaries of a graph and who reads them.
class TemporaryBytes {
 public:
  TemporaryBytes(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels);
  struct Touched {
    std::vector<size_t> reads, writes;  // temporaries, each once
  };
  const Touched& of(size_t kernel) const { return touched_[kernel]; }
  int64_t bytes(size_t temporary) const { return bytes_[temporary]; }
  int readers(size_t temporary) const {
    return readers_[temporary];
  }  // kernels, and one more when it is copied at the end
  size_t count() const { return bytes_.size(); }
  // Most bytes alive at once when kernels run in that order.
  int64_t peak(const std::vector<size_t>& order) const;

 private:
  std::vector<Touched> touched_;
  std::vector<int64_t> bytes_;
  std::vector<int> readers_;
};

// What is alive while kernels run one after the other.
class Liveness {
 public:
  explicit Liveness(const TemporaryBytes& temporaries);
  // Bytes that running `k` now would add while it runs, and give back afterwards.
  int64_t takes(size_t k) const;
  int64_t gives(size_t k) const;
  void run(size_t k);
  int64_t peak() const { return peak_; }
  int left(size_t temporary) const { return left_[temporary]; }  // readers to come

 private:
  const TemporaryBytes& temporaries_;
  std::vector<bool> written_;
  std::vector<int> left_;
  int64_t alive_ = 0, peak_ = 0;
};

// A permutation of 0 .. kernels.size() - 1.
std::vector<size_t> order_for_memory(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels);

}  // namespace heddle
