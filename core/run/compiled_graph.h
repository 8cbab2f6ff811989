// CompiledGraph and GraphCache: a compiled piece of graph, found again by structure.
//
// Purpose: evaluate() hands the pending graph here. A graph with the same structure (ops, attributes, shapes, dtypes,
// views, outputs, assigns) as an earlier one reuses its plan, kernels and recordings; only the buffers bound to it
// change. Invariants: a CompiledGraph is immutable but for its small cache of recordings. Thread safety: used under the
// device's lock.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/caller.h"
#include "core/contract/device.h"
#include "core/device/context.h"
#include "core/ir/dynamic_sizes.h"
#include "core/memory/memory_report.h"

namespace heddle {

class HostBlock;
class CompiledGraphImpl;

// What one run of a graph gives: a storage and a view per output of the capture.
struct GraphResult;

class CompiledGraph {
 public:
  // Simplifies, schedules, lowers and plans; compiles every kernel. With `fuse` false every vertex is a kernel of its
  // own. `varies`: core/ir/dynamic_sizes.h.
  static std::shared_ptr<CompiledGraph> compile(DeviceContext& device, const Capture& captured, bool fuse,
                                                const std::vector<uint16_t>& varies);
  ~CompiledGraph();
  // Enqueues the graph on the captured storages and host values. `own`: storages of an earlier run that nobody needs
  // any more, instead of new ones.
  GraphResult run(DeviceContext& device, const Capture& captured,
                  const std::vector<std::shared_ptr<Storage>>* own = nullptr);
  // Gives back the arena that recordings are bound to; the next run records anew.
  void forget_recordings();
  size_t kernel_count() const;
  uint64_t arena_bytes() const;
  // The user's lines that each kernel computes, by kernel; those of the graph that this graph was compiled for
  // (core/ir/source_lines.h).
  const std::vector<std::vector<SourceLine>>& lines() const;
  // What it needs, for what, and what was held when it ran last.
  const MemoryReport& memory() const;
  // "; computes model.cpp:17": the lines of the kernels that an error's text names, or "".
  std::string lines_note(std::string_view text) const;

 private:
  explicit CompiledGraph(std::unique_ptr<CompiledGraphImpl> impl);
  std::unique_ptr<CompiledGraphImpl> impl_;
};

class GraphCache final : public DeviceCache {
 public:
  GraphCache();
  ~GraphCache() override;
  // The graph whose key equals `key`, or null.
  std::shared_ptr<CompiledGraph> find(const std::vector<uint64_t>& key);
  void insert(const std::vector<uint64_t>& key, std::shared_ptr<CompiledGraph> step);
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
    std::shared_ptr<CompiledGraph> step;
  };
  static constexpr size_t max_steps = 256;
  std::list<Entry> entries_;  // latest use first; the last goes when there are too many
  std::unordered_multimap<uint64_t, std::list<Entry>::iterator> by_hash_;
  std::vector<std::shared_ptr<Storage>> arena_;
  ShapeFamilies families_;
  std::shared_ptr<HostBlock> host_block_;
};
// The device's own; it is used under the device's lock.
GraphCache& graph_cache(DeviceContext& device);

}  // namespace heddle
