// Step and StepCache: a compiled piece of graph, found again by structure.
//
// Purpose: evaluate() hands the pending graph here. A graph with the same structure (ops, attributes, shapes, dtypes, views,
// outputs, assigns) as an earlier one reuses its plan, kernels and recordings; only the buffers bound to it change.
// Invariants: a Step is immutable but for its small cache of recordings. Thread safety: used under the device's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace heddle {

class Step;

class StepCache {
 public:
  StepCache();
  ~StepCache();
  // The step whose key equals `key`, or null.
  std::shared_ptr<Step> find(const std::vector<uint64_t>& key) const;
  void insert(const std::vector<uint64_t>& key, std::shared_ptr<Step> step);
  void clear();
  size_t size() const;

 private:
  struct Entry {
    std::vector<uint64_t> key;
    std::shared_ptr<Step> step;
  };
  std::unordered_multimap<uint64_t, Entry> entries_;
};

}  // namespace heddle
