#include "heddle/core/schedule/kernel_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace heddle {

KernelDependencies::KernelDependencies(const std::vector<LoweredKernel>& kernels)
    : after(kernels.size()), waiting(kernels.size(), 0) {
  struct Slot {
    std::vector<size_t> readers, writers;
  };
  std::map<SlotRef, Slot> slots;
  std::set<std::pair<size_t, size_t>> known;
  const auto depends = [&](size_t k, const std::vector<size_t>& on) {
    for (size_t earlier : on) {
      if (earlier == k || !known.insert({earlier, k}).second) continue;
      after[earlier].push_back(k);
      ++waiting[k];
    }
  };
  for (size_t k = 0; k < kernels.size(); ++k) {
    kernels[k].for_each_binding([&](SlotRef ref, Access access) {
      Slot& slot = slots[ref];
      if (access != Access::write) depends(k, slot.writers);
      if (access != Access::read) depends(k, slot.readers);
      // A vertex with several writers is a join: each writes a part of its own.
      if (access != Access::read && ref.kind != SlotRef::Kind::vertex) depends(k, slot.writers);
      if (access != Access::write) slot.readers.push_back(k);
      if (access != Access::read) slot.writers.push_back(k);
    });
  }
}

TemporaryBytes::TemporaryBytes(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels)
    : touched_(kernels.size()) {
  std::set<int> outlives, copied;
  for (const OutputPlan& output : scheduled.outputs) (output.copy_back ? copied : outlives).insert(output.base);
  std::map<int, size_t> number;
  const auto temporary = [&](int vertex) {
    const auto [at, fresh] = number.try_emplace(vertex, bytes_.size());
    if (fresh) {
      const IrNode& node = scheduled.graph.nodes[vertex];
      bytes_.push_back(node.shape.numel() * static_cast<int64_t>(size_of(node.dtype)));
      readers_.push_back(copied.contains(vertex) ? 1 : 0);
    }
    return at->second;
  };
  const auto once = [](std::vector<size_t>& list, size_t value) {
    if (std::find(list.begin(), list.end(), value) != list.end()) return false;
    list.push_back(value);
    return true;
  };
  for (size_t k = 0; k < kernels.size(); ++k) {
    kernels[k].for_each_binding([&](SlotRef ref, Access access) {
      if (ref.kind != SlotRef::Kind::vertex || outlives.contains(ref.index)) return;
      const size_t t = temporary(ref.index);
      if (access != Access::write && once(touched_[k].reads, t)) ++readers_[t];
      if (access != Access::read) once(touched_[k].writes, t);
    });
  }
}

Liveness::Liveness(const TemporaryBytes& temporaries)
    : temporaries_(temporaries), written_(temporaries.count(), false), left_(temporaries.count()) {
  for (size_t t = 0; t < left_.size(); ++t) left_[t] = temporaries.readers(t);
}

int64_t Liveness::takes(size_t k) const {
  int64_t bytes = 0;
  for (size_t t : temporaries_.of(k).writes) bytes += written_[t] ? 0 : temporaries_.bytes(t);
  return bytes;
}

int64_t Liveness::gives(size_t k) const {
  int64_t bytes = 0;
  for (size_t t : temporaries_.of(k).reads) bytes += left_[t] == 1 ? temporaries_.bytes(t) : 0;
  return bytes;
}

void Liveness::run(size_t k) {
  alive_ += takes(k);
  peak_ = std::max(peak_, alive_);
  alive_ -= gives(k);
  for (size_t t : temporaries_.of(k).writes) written_[t] = true;
  for (size_t t : temporaries_.of(k).reads) --left_[t];
}

namespace {

// Runs what frees memory at once; else goes on in the given order.
class GreedyOrder {
 public:
  GreedyOrder(const TemporaryBytes& temporaries, KernelDependencies dependencies)
      : temporaries_(temporaries), dependencies_(std::move(dependencies)), alive_(temporaries) {
    for (size_t k = 0; k < dependencies_.waiting.size(); ++k) {
      if (dependencies_.waiting[k] == 0) ready_.insert(k);
    }
  }

  std::vector<size_t> run() {
    std::vector<size_t> order;
    while (!ready_.empty()) {
      const size_t k = next();
      ready_.erase(k);
      alive_.run(k);
      order.push_back(k);
      for (size_t later : dependencies_.after[k]) {
        if (--dependencies_.waiting[later] == 0) ready_.insert(later);
      }
    }
    return order;
  }

 private:
  size_t next() const {
    std::map<size_t, int64_t> change;               // by ready kernel
    std::map<size_t, std::vector<size_t>> readers;  // those of a temporary that are ready
    for (size_t k : ready_) {
      change[k] = change_after(k);
      for (size_t t : temporaries_.of(k).reads) readers[t].push_back(k);
    }
    size_t best = *ready_.begin();
    int64_t least = 0;
    const auto consider = [&](int64_t bytes, size_t k) {
      if (bytes < least) {
        least = bytes;
        best = k;
      }
    };
    for (const auto& [k, bytes] : change) consider(bytes, k);
    // Several that read the same give it back together: a bias' gradient and a weight's.
    for (const auto& [t, all] : readers) {
      if (all.size() < 2 || alive_.left(t) != static_cast<int>(all.size())) continue;
      int64_t bytes = -temporaries_.bytes(t);
      for (size_t k : all) bytes += change[k];
      consider(bytes, all[0]);
    }
    return best;
  }

  // What is alive after k, and after the kernels that only wait for it, against now: a long sum is two kernels, of
  // which the first takes and the second gives.
  int64_t change_after(size_t k) const {
    constexpr int depth = 3;
    int64_t change = 0, least = 0;
    for (int step = 0; step < depth; ++step) {
      change += alive_.takes(k) - alive_.gives(k);
      least = step == 0 ? change : std::min(least, change);
      const std::vector<size_t>& after = dependencies_.after[k];
      if (after.size() != 1 || dependencies_.waiting[after[0]] != 1) break;
      k = after[0];
    }
    return least;
  }

  const TemporaryBytes& temporaries_;
  KernelDependencies dependencies_;
  Liveness alive_;
  std::set<size_t> ready_;
};

}  // namespace

int64_t TemporaryBytes::peak(const std::vector<size_t>& order) const {
  Liveness alive(*this);
  for (size_t k : order) alive.run(k);
  return alive.peak();
}

std::vector<size_t> order_for_memory(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels) {
  const TemporaryBytes temporaries(scheduled, kernels);
  std::vector<size_t> given(kernels.size());
  std::iota(given.begin(), given.end(), size_t{0});
  std::vector<size_t> greedy = GreedyOrder(temporaries, KernelDependencies(kernels)).run();
  return temporaries.peak(greedy) < temporaries.peak(given) ? greedy : given;
}

}  // namespace heddle
