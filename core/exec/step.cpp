#include "core/exec/step.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/exec/commands.h"
#include "core/exec/debug.h"
#include "core/exec/loop.h"
#include "core/exec/lower.h"
#include "core/exec/places.h"
#include "core/exec/plan.h"
#include "core/exec/replay.h"
#include "core/exec/step_result.h"

namespace heddle {
namespace {

// By words: a key is compared whole anyway, and is long.
uint64_t hash_key(const std::vector<uint64_t>& key) {
  uint64_t hash = key.size();
  for (const uint64_t word : key) {
    hash = (hash ^ word) * 0x9fb21c651e98df25ull;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

// ---- StepCache

StepCache::StepCache() = default;
StepCache::~StepCache() = default;

std::shared_ptr<Step> StepCache::find(const std::vector<uint64_t>& key) {
  const auto [begin, end] = by_hash_.equal_range(hash_key(key));
  for (auto at = begin; at != end; ++at) {
    if (at->second->key != key) continue;
    entries_.splice(entries_.begin(), entries_, at->second);
    return at->second->step;
  }
  return nullptr;
}

void StepCache::insert(const std::vector<uint64_t>& key, std::shared_ptr<Step> step) {
  if (entries_.size() >= max_steps) {
    const auto [begin, end] = by_hash_.equal_range(entries_.back().hash);
    by_hash_.erase(std::find_if(begin, end, [&](const auto& at) { return at.second == std::prev(entries_.end()); }));
    entries_.pop_back();
  }
  entries_.push_front({key, hash_key(key), std::move(step)});
  by_hash_.emplace(entries_.front().hash, entries_.begin());
}

void StepCache::clear() {
  by_hash_.clear();
  entries_.clear();
  arena_.clear();
}

size_t StepCache::size() const { return entries_.size(); }

std::shared_ptr<Storage> StepCache::arena(DeviceContext& device, size_t block, uint64_t bytes) {
  if (arena_.size() > block && arena_[block] && arena_[block]->bytes() >= bytes) return arena_[block];
  if (arena_.size() > block) arena_[block].reset();
  std::shared_ptr<Storage> made = device.allocate(bytes);  // may clear() this cache, when memory is short
  if (arena_.size() <= block) arena_.resize(block + 1);
  return arena_[block] = std::move(made);
}

uint64_t StepCache::arena_bytes() const {
  uint64_t sum = 0;
  for (const auto& block : arena_) sum += block ? block->bytes() : 0;
  return sum;
}

// ---- Step

class StepImpl {
 public:
  StepImpl(DeviceContext& device, const Capture& captured, bool fuse) : device_(device) {
    const Caps& caps = device.caps();
    const Graph imported = import_graph(captured);
    Graph graph = prepare(imported, caps, fuse);
    debug_graph(imported, graph, caps);
    auto [scheduled, kernels, plan] = plan_step(std::move(graph), caps, fuse);
    scheduled_ = std::move(scheduled);
    lowered_ = std::move(kernels);
    plan_ = std::move(plan);
    places_ = kernel_places(scheduled_, lowered_, captured);
    debug_plan(scheduled_, lowered_, plan_);
    kernels_ = compile_kernels(device, lowered_);
  }

  StepResult run(const Capture& captured, const std::vector<StoragePtr>* given) {
    std::vector<StoragePtr> own = given ? *given : device_.allocate_results(plan_.own_bytes);
    std::vector<StoragePtr> arena;
    for (size_t b = 0; b < plan_.arena.block_bytes.size(); ++b) arena.push_back(device_.steps().arena(device_, b, plan_.arena.block_bytes[b]));
    write_host_values(captured);
    submit(captured, own, arena);
    StepResult result = collect(captured, own);
    result.own = std::move(own);
    return result;
  }

  size_t kernel_count() const {
    size_t launches = 0;
    for (const LoweredKernel& kernel : lowered_) launches += launches_of(kernel);
    return launches;
  }
  uint64_t arena_bytes() const { return plan_.arena.total(); }
  const std::vector<std::vector<Place>>& places() const { return places_; }

 private:
  struct Recording {
    std::vector<Binding> signature;
    std::shared_ptr<KeptRecording> kept;
    std::vector<std::string_view> names;  // of the commands
  };
  static constexpr size_t max_recordings = 8;
  // Memory that a recording is bound to.
  struct Memory {
    const Capture& captured;
    const std::vector<StoragePtr>& own;
    const std::vector<StoragePtr>& arena;
  };

  // All host values of the step in one small write.
  void write_host_values(const Capture& captured) {
    if (captured.host_values.empty()) return;
    const uint64_t bytes = captured.host_values.size() * sizeof(HostValue);
    if (!host_) host_ = device_.allocate(bytes);
    device_.write(*host_, 0, captured.host_values.data(), bytes);
  }

  Binding bind(SlotRef slot, const Memory& memory) const {
    if (slot.kind == SlotRef::Kind::input) return memory.captured.storages[static_cast<size_t>(slot.index)]->binding();
    if (slot.kind == SlotRef::Kind::host) return host_->binding();
    if (const auto at = plan_.own_storage.find(slot.index); at != plan_.own_storage.end()) return memory.own[at->second]->binding();
    const size_t life = plan_.temporaries.at(slot.index);
    const Placement& place = plan_.arena.placements[life];
    const Binding block = memory.arena[static_cast<size_t>(place.block)]->binding();
    return {block.buffer, block.offset + place.offset, plan_.lifetimes[life].bytes};
  }

  std::vector<Binding> signature(const Capture& captured, const std::vector<StoragePtr>& own, const std::vector<StoragePtr>& arena) const {
    std::vector<Binding> all;
    all.reserve(captured.storages.size() + own.size() + arena.size());
    for (const StoragePtr& s : captured.storages) all.push_back(s->binding());
    for (const StoragePtr& s : own) all.push_back(s->binding());
    for (const StoragePtr& s : arena) all.push_back(s->binding());
    return all;
  }

  Bound commands(const Memory& memory) const {
    CommandBuilder builder(device_, kernels_);
    const Binding host = host_ ? host_->binding() : Binding{};
    for (const LoweredKernel& kernel : lowered_) {
      builder.add(kernel, host, [&](const std::vector<SlotRef>& slots) {
        std::vector<Binding> bindings;
        for (const SlotRef& slot : slots) bindings.push_back(bind(slot, memory));
        return bindings;
      });
    }
    for (const OutputPlan& output : scheduled_.outputs) {
      if (!output.copy_back || output.view.shape.numel() == 0) continue;
      builder.copy(bind({SlotRef::Kind::vertex, output.base}, memory), memory.captured.storages[static_cast<size_t>(output.assign_slot)]->binding(), "copy");
    }
    return builder.take();
  }

  void submit(const Capture& captured, const std::vector<StoragePtr>& own, const std::vector<StoragePtr>& arena) {
    std::vector<Binding> wanted = signature(captured, own, arena);
    auto at = std::find_if(recordings_.begin(), recordings_.end(), [&](const Recording& r) { return r.signature == wanted; });
    auto locked = device_.lock();
    if (at == recordings_.end()) {
      Bound bound = commands({captured, own, arena});
      if (bound.list.empty()) return;
      if (recordings_.size() >= max_recordings) recordings_.erase(recordings_.begin());
      const RecordingId id = locked.device.record(bound.list, debug_level() >= 1);
      std::vector<StoragePtr> memory = arena;
      if (bound.table) memory.push_back(bound.table);
      recordings_.push_back({std::move(wanted), std::make_shared<KeptRecording>(device_, id, bound.launches, std::move(memory)), std::move(bound.names)});
      locked.counters.recordings++;
    } else {
      std::rotate(at, at + 1, recordings_.end());  // most recently used last
    }
    const Ticket ticket = locked.device.submit(recordings_.back().kept->id());
    device_.remember(ticket);
    locked.counters.kernels += recordings_.back().kept->kernels();
    locked.counters.submissions++;
    debug_times(locked.device, ticket, recordings_.back().names);
    if (Replay::capturing()) {
      std::vector<StoragePtr> memory = captured.storages;
      memory.insert(memory.end(), own.begin(), own.end());
      if (host_) memory.push_back(host_);
      Replay::note(recordings_.back().kept, std::move(memory));
    }
  }

  StepResult collect(const Capture& captured, const std::vector<StoragePtr>& own) const {
    StepResult result;
    for (const OutputPlan& output : scheduled_.outputs) {
      const IrNode& base = scheduled_.graph.nodes[output.base];
      StoragePtr storage;
      if (output.assign_slot >= 0) storage = captured.storages[static_cast<size_t>(output.assign_slot)];
      else if (base.leaf >= 0) storage = captured.storages[static_cast<size_t>(scheduled_.graph.leaves[base.leaf].slot)];
      else if (const auto at = plan_.own_storage.find(output.base); at != plan_.own_storage.end()) storage = own[at->second];
      else storage = assigned_storage(output.base, captured);
      result.outputs.push_back({std::move(storage), output.view});
    }
    return result;
  }

  StoragePtr assigned_storage(int base, const Capture& captured) const {
    for (const OutputPlan& other : scheduled_.outputs) {
      if (other.base == base && other.assign_slot >= 0) return captured.storages[static_cast<size_t>(other.assign_slot)];
    }
    throw std::logic_error("[step] an output has no storage");
  }

  DeviceContext& device_;
  ScheduledGraph scheduled_;
  std::vector<LoweredKernel> lowered_;
  Plan plan_;
  std::vector<std::vector<Place>> places_;  // by kernel
  KernelTable kernels_;
  StoragePtr host_;
  std::vector<Recording> recordings_;
};

Step::Step(std::unique_ptr<StepImpl> impl) : impl_(std::move(impl)) {}
Step::~Step() = default;

std::shared_ptr<Step> Step::compile(DeviceContext& device, const Capture& captured, bool fuse) {
  return std::shared_ptr<Step>(new Step(std::make_unique<StepImpl>(device, captured, fuse)));
}

StepResult Step::run(DeviceContext&, const Capture& captured, const std::vector<StoragePtr>* own) { return impl_->run(captured, own); }
size_t Step::kernel_count() const { return impl_->kernel_count(); }
uint64_t Step::arena_bytes() const { return impl_->arena_bytes(); }
const std::vector<std::vector<Place>>& Step::places() const { return impl_->places(); }

}  // namespace heddle
