#include "heddle/core/run/graph_cache.h"

#include <algorithm>

#include "heddle/core/base/hash.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/launch_memory.h"

namespace heddle {

GraphCache& graph_cache(DeviceContext& device) {
  const auto locked = device.lock();
  if (!device.cache(Kept::graphs)) device.keep(Kept::graphs, std::make_unique<GraphCache>(launch_memory(device)));
  return static_cast<GraphCache&>(*device.cache(Kept::graphs));  // nobody else keeps anything there
}

GraphCache::GraphCache(LaunchMemory& memory) : memory_(memory) {}
GraphCache::~GraphCache() = default;

std::shared_ptr<CompiledGraph> GraphCache::find(const std::vector<uint64_t>& key) {
  const auto [begin, end] = by_hash_.equal_range(hash_words(key));
  for (auto at = begin; at != end; ++at) {
    if (at->second->key != key) continue;
    entries_.splice(entries_.begin(), entries_, at->second);
    return at->second->graph;
  }
  return nullptr;
}

void GraphCache::insert(const std::vector<uint64_t>& key, std::shared_ptr<CompiledGraph> graph) {
  if (entries_.size() >= max_graphs) {
    const auto [begin, end] = by_hash_.equal_range(entries_.back().hash);
    by_hash_.erase(std::find_if(begin, end, [&](const auto& at) { return at.second == std::prev(entries_.end()); }));
    entries_.pop_back();
  }
  entries_.push_front({key, hash_words(key), std::move(graph)});
  by_hash_.emplace(entries_.front().hash, entries_.begin());
}

void GraphCache::clear() {
  by_hash_.clear();
  entries_.clear();
  memory_.clear();
}

size_t GraphCache::size() const { return entries_.size(); }

std::string GraphCache::lines_note(std::string_view text) const {
  for (const Entry& entry : entries_) {
    if (std::string note = entry.graph->lines_note(text); !note.empty()) return note;
  }
  return {};
}

}  // namespace heddle
