// GraphCache: the compiled graphs of a device, found again by their keys, and the memory that they share.
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
#include "heddle/core/device/locked_device.h"
#include "heddle/core/ir/dynamic_sizes.h"

namespace heddle {

class CompiledGraph;
class HostBlock;

class GraphCache final : public DeviceCache {
 public:
  GraphCache();
  ~GraphCache() override;
  // The graph whose key equals `key`, or null.
  std::shared_ptr<CompiledGraph> find(const std::vector<uint64_t>& key);
  void insert(const std::vector<uint64_t>& key, std::shared_ptr<CompiledGraph> graph);
  void clear() override;
  size_t size() const;
  ShapeFamilies& families() { return families_; }
  // Memory for temporaries, shared by all graphs of the device: its queue is in order, so no two graphs use it at the
  // same time.
  std::shared_ptr<Storage> arena(DeviceContext& device, size_t block, uint64_t bytes);
  uint64_t arena_bytes() const override;
  // The lines of the kernels that an error's text names ("last commands: ..."), of the latest step that has such; or
  // "".
  std::string lines_note(std::string_view text) const override;
  // Page-locked memory for values that steps offload, shared likewise.
  std::shared_ptr<HostBlock> host_block(DeviceContext& device, uint64_t bytes);

 private:
  struct Entry {
    std::vector<uint64_t> key;
    uint64_t hash = 0;
    std::shared_ptr<CompiledGraph> graph;
  };
  static constexpr size_t max_graphs = 256;
  std::list<Entry> entries_;  // latest use first; the last goes when there are too many
  std::unordered_multimap<uint64_t, std::list<Entry>::iterator> by_hash_;
  std::vector<std::shared_ptr<Storage>> arena_;
  ShapeFamilies families_;
  std::shared_ptr<HostBlock> host_block_;
};
// The device's own; it is used under the device's lock.
GraphCache& graph_cache(DeviceContext& device);

}  // namespace heddle
