#include "heddle/core/run/graph_cache.h"

#include <algorithm>

#include "heddle/core/base/hash.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/replay.h"

namespace heddle {

GraphCache& graph_cache(DeviceContext& device) {
  const auto locked = device.lock();
  if (!device.cache()) device.keep(std::make_unique<GraphCache>());
  return static_cast<GraphCache&>(*device.cache());  // nobody else keeps anything
}

GraphCache::GraphCache() = default;
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
  arena_.clear();
  host_block_.reset();
}

size_t GraphCache::size() const { return entries_.size(); }

std::shared_ptr<Storage> GraphCache::arena(DeviceContext& device, size_t block, uint64_t bytes) {
  if (arena_.size() > block && arena_[block] && arena_[block]->bytes() >= bytes) return arena_[block];
  if (arena_.size() > block && arena_[block]) {  // the larger one takes its place: nobody may keep it
    arena_[block].reset();
    for (Entry& entry : entries_) entry.graph->forget_recordings();
  }
  std::shared_ptr<Storage> made = device.allocate(bytes);  // may clear() this cache, when memory is short
  if (arena_.size() <= block) arena_.resize(block + 1);
  return arena_[block] = std::move(made);
}

std::shared_ptr<HostBlock> GraphCache::host_block(DeviceContext& device, uint64_t bytes) {
  if (!host_block_ || host_block_->bytes() < bytes) {
    host_block_.reset();
    host_block_ = std::make_shared<HostBlock>(device, bytes);
  }
  return host_block_;
}

uint64_t GraphCache::arena_bytes() const {
  uint64_t sum = 0;
  for (const auto& block : arena_) sum += block ? block->bytes() : 0;
  return sum;
}

std::string GraphCache::lines_note(std::string_view text) const {
  for (const Entry& entry : entries_) {
    if (std::string note = entry.graph->lines_note(text); !note.empty()) return note;
  }
  return {};
}

}  // namespace heddle
