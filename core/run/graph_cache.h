// GraphCache: the compiled graphs of a device, found again by their keys.
//
// Purpose: a graph with the same structure as an earlier one reuses its plan, kernels and recordings. Invariants: the
// graph that was used longest ago goes first. Thread safety: used under the device's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/device/device_cache.h"
#include "heddle/core/ir/dynamic_sizes.h"

namespace heddle {

class CompiledGraph;
class LaunchMemory;

class GraphCache final : public DeviceCache {
 public:
  // `memory`: what the graphs' launchers share.
  explicit GraphCache(LaunchMemory& memory);
  ~GraphCache() override;
  // The graph whose key equals `key`, or null.
  std::shared_ptr<CompiledGraph> find(const std::vector<uint64_t>& key);
  void insert(const std::vector<uint64_t>& key, std::shared_ptr<CompiledGraph> graph);
  // And the memory that they share.
  void clear() override;
  size_t size() const;
  ShapeFamilies& families() { return families_; }
  // The lines of the kernels that an error's text names ("last commands: ..."), of the latest step that has such; or
  // "".
  std::string lines_note(std::string_view text) const override;

 private:
  struct Entry {
    std::vector<uint64_t> key;
    uint64_t hash = 0;
    std::shared_ptr<CompiledGraph> graph;
  };
  static constexpr size_t max_graphs = 256;
  std::list<Entry> entries_;  // latest use first; the last goes when there are too many
  std::unordered_multimap<uint64_t, std::list<Entry>::iterator> by_hash_;
  ShapeFamilies families_;
  LaunchMemory& memory_;
};
// The device's own; it is used under the device's lock.
GraphCache& graph_cache(DeviceContext& device);

}  // namespace heddle
