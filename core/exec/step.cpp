#include "core/exec/step.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/host_span.h"
#include "core/exec/debug.h"
#include "core/exec/lower.h"
#include "core/exec/once.h"
#include "core/exec/places.h"
#include "core/exec/plan.h"
#include "core/exec/profile.h"
#include "core/exec/replay.h"
#include "core/exec/saved_launch.h"
#include "core/exec/segments.h"
#include "core/exec/step_result.h"

namespace heddle {
namespace {

// For cutting long recordings (Dispatch::seconds): 10 GB/s and a thousand million turns of a loop a second are what a slow integrated GPU does.
double guessed_seconds(const LoweredKernel& kernel, const Dispatch& dispatch) {
  double bytes = 0, lanes = 1;
  for (const Binding& binding : dispatch.bindings) bytes += static_cast<double>(binding.size);
  for (int axis = 0; axis < 3; ++axis) lanes *= static_cast<double>(dispatch.groups[axis]) * kernel.source.group[static_cast<size_t>(axis)];
  return std::max(bytes / 1e10, lanes * static_cast<double>(std::max<int64_t>(kernel.loop_iterations, 1)) / 1e9);
}

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
  host_block_.reset();
}

size_t StepCache::size() const { return entries_.size(); }

std::shared_ptr<Storage> StepCache::arena(DeviceContext& device, size_t block, uint64_t bytes) {
  if (arena_.size() > block && arena_[block] && arena_[block]->bytes() >= bytes) return arena_[block];
  if (arena_.size() > block && arena_[block]) {  // the larger one takes its place: nobody may keep it
    arena_[block].reset();
    for (Entry& entry : entries_) entry.step->forget_recordings();
  }
  std::shared_ptr<Storage> made = device.allocate(bytes);  // may clear() this cache, when memory is short
  if (arena_.size() <= block) arena_.resize(block + 1);
  return arena_[block] = std::move(made);
}

std::shared_ptr<HostBlock> StepCache::host_block(DeviceContext& device, uint64_t bytes) {
  if (!host_block_ || host_block_->bytes() < bytes) {
    host_block_.reset();
    host_block_ = std::make_shared<HostBlock>(device, bytes);
  }
  return host_block_;
}

uint64_t StepCache::arena_bytes() const {
  uint64_t sum = 0;
  for (const auto& block : arena_) sum += block ? block->bytes() : 0;
  return sum;
}

// ---- Step

class StepImpl {
 public:
  StepImpl(DeviceContext& device, const Capture& captured, bool fuse, const std::vector<uint16_t>& varies) : device_(device) {
    const Caps& caps = device.caps();
    const HostSpan span("plan");
    const Graph imported = import_graph(captured, varies);
    Graph graph = prepare(imported, caps, fuse);
    debug_graph(imported, graph, caps);
    if (std::optional<OnceSplit> split = fuse ? split_once(graph) : std::nullopt) {
      once_.reset(new StepImpl(device, std::move(split->once), captured));
      once_slots_ = std::move(split->slots);
      graph = std::move(split->rest);
    }
    build(std::move(graph), captured, fuse);
  }

  StepResult run(const Capture& captured, const std::vector<StoragePtr>* given) {
    if (!once_) return run_bound(captured, given);
    Capture bound;  // all that a run looks at
    bound.storages = captured.storages;
    bound.bases = captured.bases;
    bound.host_values = captured.host_values;
    if (!once_values_hold(captured) || Replay::capturing()) compute_once_values(captured);
    bound.storages.insert(bound.storages.end(), once_values_.begin(), once_values_.end());
    bound.bases.resize(bound.storages.size(), 0);
    return run_bound(bound, given);
  }

  void forget_recordings() {
    if (once_) once_->forget_recordings();
    recordings_.clear();
    arena_.clear();
  }

  size_t kernel_count() const { return lowered_.size(); }
  uint64_t arena_bytes() const { return plan_.arena.total(); }
  const std::vector<std::vector<Place>>& places() const { return places_; }

 private:
  StepImpl(DeviceContext& device, Graph graph, const Capture& captured) : device_(device) { build(std::move(graph), captured, true); }

  void build(Graph graph, const Capture& captured, bool fuse) {
    auto [scheduled, kernels, plan] = plan_step(std::move(graph), device_.caps(), fuse, active_passes(), step_budget(device_, captured));
    scheduled_ = std::move(scheduled);
    lowered_ = std::move(kernels);
    plan_ = std::move(plan);
    places_ = kernel_places(scheduled_, lowered_, captured);
    debug_plan(scheduled_, lowered_, plan_);
    std::vector<const KernelSource*> sources;
    std::vector<size_t> compiled;
    for (size_t k = 0; k < lowered_.size(); ++k) {
      if (lowered_[k].is_transfer()) continue;
      sources.push_back(&lowered_[k].source);
      compiled.push_back(k);
    }
    const std::vector<KernelId> ids = device_.kernels(sources);  // what is new is compiled together
    kernels_.assign(lowered_.size(), KernelId::none);
    for (size_t i = 0; i < ids.size(); ++i) kernels_[compiled[i]] = ids[i];
  }

  StepResult run_bound(const Capture& captured, const std::vector<StoragePtr>* given) {
    std::vector<StoragePtr> own = given ? *given : device_.allocate_results(plan_.own_bytes);
    std::vector<StoragePtr> arena;
    for (size_t b = 0; b < plan_.arena.block_bytes.size(); ++b) arena.push_back(device_.steps().arena(device_, b, plan_.arena.block_bytes[b]));
    if (arena != arena_) {  // what was recorded with another one is never found again, and would keep its memory
      recordings_.clear();
      arena_ = arena;
    }
    if (plan_.host_bytes > 0 && !offloaded_) offloaded_ = device_.steps().host_block(device_, plan_.host_bytes);
    write_host_values(captured);
    submit(captured, own, arena);
    StepResult result = collect(captured, own);
    result.own = std::move(own);
    for (const OutputPlan& output : scheduled_.outputs) {
      if (output.assign_slot >= 0) captured.storages[static_cast<size_t>(output.assign_slot)]->version++;
    }
    return result;
  }

  // ---- what is computed once (core/exec/once.h)
  struct Seen {
    std::weak_ptr<Storage> storage;  // weak: an owner more, and it would not be updated in place
    uint64_t version = 0, base = 0;
  };

  bool once_values_hold(const Capture& captured) const {
    if (once_values_.empty()) return false;
    for (size_t i = 0; i < once_slots_.size(); ++i) {
      const StoragePtr& now = captured.storages[static_cast<size_t>(once_slots_[i])];
      const uint64_t base = captured.bases[static_cast<size_t>(once_slots_[i])];
      if (once_seen_[i].storage.lock() != now || once_seen_[i].version != now->version || once_seen_[i].base != base) return false;
    }
    return true;
  }

  void compute_once_values(const Capture& captured) {
    Capture bound;
    bound.storages = captured.storages;
    bound.bases = captured.bases;
    once_values_.clear();
    for (const auto& output : once_->run(bound, nullptr).outputs) once_values_.push_back(output.storage);
    once_seen_.clear();
    for (const int slot : once_slots_) {
      const StoragePtr& storage = captured.storages[static_cast<size_t>(slot)];
      once_seen_.push_back({storage, storage->version, captured.bases[static_cast<size_t>(slot)]});
    }
  }

  struct Recording {
    std::vector<Binding> signature;
    std::shared_ptr<KeptRecording> kept;
    std::shared_ptr<const std::vector<KernelFacts>> facts;  // of the commands; null: not timed
  };
  static constexpr size_t max_recordings = 8;

  // All host values of the step in one small write.
  void write_host_values(const Capture& captured) {
    if (captured.host_values.empty()) return;
    const uint64_t bytes = captured.host_values.size() * sizeof(HostValue);
    if (!host_) host_ = device_.allocate(bytes);
    device_.write(*host_, 0, captured.host_values.data(), bytes);
  }

  Binding bind(SlotRef slot, const Capture& captured, const std::vector<StoragePtr>& own, const std::vector<StoragePtr>& arena) const {
    if (slot.kind == SlotRef::Kind::input) return captured.binding(static_cast<size_t>(slot.index));
    if (slot.kind == SlotRef::Kind::host) return host_->binding();
    if (const auto at = plan_.own_storage.find(slot.index); at != plan_.own_storage.end()) return own[at->second]->binding();
    const size_t life = plan_.temporaries.at(slot.index);
    const Placement& place = plan_.arena.placements[life];
    const Binding block = arena[static_cast<size_t>(place.block)]->binding();
    return {block.buffer, block.offset + place.offset, plan_.lifetimes[life].bytes};
  }

  std::vector<Binding> signature(const Capture& captured, const std::vector<StoragePtr>& own, const std::vector<StoragePtr>& arena) const {
    std::vector<Binding> all;
    all.reserve(captured.storages.size() + own.size() + arena.size());
    for (size_t slot = 0; slot < captured.storages.size(); ++slot) all.push_back(captured.binding(slot));
    for (const StoragePtr& s : own) all.push_back(s->binding());
    for (const StoragePtr& s : arena) all.push_back(s->binding());
    return all;
  }

  // Memory that a recording is bound to.
  struct Memory {
    const Capture& captured;
    const std::vector<StoragePtr>& own;
    const std::vector<StoragePtr>& arena;
  };

  std::vector<Binding> bind_all(const LoweredKernel& kernel, const std::vector<SlotRef>& slots, const Memory& memory) const {
    std::vector<Binding> bindings;
    for (const SlotRef& slot : slots) {
      bindings.push_back(bind(slot, memory.captured, memory.own, memory.arena));
      check_binding(bindings.back(), kernel);
    }
    return bindings;
  }

  // The launches of kernel k over its segments; their tables are appended to `table`, where the dispatches' last bindings say.
  void add_segments(size_t k, const Memory& memory, std::vector<Command>& list, std::vector<int32_t>& table) const {
    const LoweredKernel& kernel = lowered_[k];
    std::vector<std::vector<Binding>> bound;
    for (const LoweredKernel::Segment& segment : kernel.segments) bound.push_back(bind_all(kernel, segment.bindings, memory));
    const size_t alignment = std::max<size_t>(64, device_.caps().buffer_alignment / sizeof(int32_t));
    for (const SegmentLaunch& launch : cover_segments(kernel, bound, device_.caps())) {
      table.resize((table.size() + alignment - 1) / alignment * alignment, 0);
      const std::vector<int32_t> rows = segment_table(kernel, bound, launch);
      Dispatch dispatch;
      dispatch.kernel = kernels_[k];
      const auto groups = fold_groups(launch.groups, device_.caps());
      std::copy(groups.begin(), groups.end(), dispatch.groups);
      dispatch.bindings = launch.covers;
      dispatch.bindings.push_back({BufferId::none, table.size() * sizeof(int32_t), rows.size() * sizeof(int32_t)});
      dispatch.constants = {static_cast<uint32_t>(launch.groups)};
      dispatch.seconds = guessed_seconds(kernel, dispatch);
      table.insert(table.end(), rows.begin(), rows.end());
      list.emplace_back(std::move(dispatch));
    }
  }

  // Uploads the tables and points the dispatches that read them at where they came to lie.
  StoragePtr place_table(const std::vector<int32_t>& table, std::vector<Command>& list) const {
    if (table.empty()) return nullptr;
    StoragePtr storage = device_.allocate(table.size() * sizeof(int32_t));
    device_.write(*storage, 0, table.data(), table.size() * sizeof(int32_t));
    for (Command& command : list) {
      auto* dispatch = std::get_if<Dispatch>(&command);
      if (!dispatch || dispatch->bindings.empty() || dispatch->bindings.back().buffer != BufferId::none) continue;
      dispatch->bindings.back().buffer = storage->binding().buffer;
      dispatch->bindings.back().offset += storage->binding().offset;
    }
    return storage;
  }

  // What a recording is made of: the table and the names belong to the launches over many segments, and to all dispatches.
  struct Bound {
    std::vector<Command> list;
    std::vector<size_t> kernels;  // of each dispatch, an index into lowered_
    std::vector<int32_t> rows;    // of all tables
    StoragePtr table;
  };

  Bound commands(const Capture& captured, const std::vector<StoragePtr>& own, const std::vector<StoragePtr>& arena) const {
    Bound bound;
    std::vector<Command>& list = bound.list;
    std::vector<int32_t>& table = bound.rows;
    const Memory memory{captured, own, arena};
    for (size_t k = 0; k < lowered_.size(); ++k) {
      if (!lowered_[k].segments.empty()) {
        add_segments(k, memory, list, table);
        bound.kernels.resize(list.size(), k);
        continue;
      }
      if (lowered_[k].is_transfer()) {
        list.emplace_back(transfer(lowered_[k], bind_all(lowered_[k], lowered_[k].bindings, memory)[0]));
        bound.kernels.resize(list.size(), k);
        continue;
      }
      Dispatch dispatch;
      dispatch.kernel = kernels_[k];
      std::copy(std::begin(lowered_[k].groups), std::end(lowered_[k].groups), dispatch.groups);
      dispatch.bindings = bind_all(lowered_[k], lowered_[k].bindings, memory);
      dispatch.constants = lowered_[k].constants;
      dispatch.seconds = guessed_seconds(lowered_[k], dispatch);
      list.emplace_back(std::move(dispatch));
      bound.kernels.resize(list.size(), k);
    }
    bound.table = place_table(table, list);
    for (const OutputPlan& output : scheduled_.outputs) {
      if (!output.copy_back || output.view.shape.numel() == 0) continue;
      const SlotRef from{SlotRef::Kind::vertex, output.base};
      Binding target = captured.storages[static_cast<size_t>(output.assign_slot)]->binding();
      Binding source = bind(from, captured, own, arena);
      // Either may be the larger one: the target may be the front of a larger storage.
      source.size = target.size = std::min(source.size, target.size);
      list.emplace_back(Copy{source, target});
    }
    return bound;
  }

  Copy transfer(const LoweredKernel& kernel, const Binding& here) const {
    const Binding there{offloaded_->buffer(), kernel.host_offset, here.size};
    return kernel.source.buffers[0].access == Access::read ? Copy{here, there} : Copy{there, here};
  }

  // One entry per command. What a kernel over segments does is shared out to its launches by their work groups.
  std::shared_ptr<const std::vector<KernelFacts>> facts_of(const Bound& bound) {
    if (kernel_facts_.empty()) {
      kernel_facts_ = kernel_facts(scheduled_, lowered_);
      for (size_t k = 0; k < kernel_facts_.size() && k < places_.size(); ++k) {
        for (const Place& place : places_[k]) kernel_facts_[k].places.push_back(place.str());
      }
    }
    auto facts = std::make_shared<std::vector<KernelFacts>>();
    for (size_t i = 0; i < bound.list.size(); ++i) {
      if (const auto* copy = std::get_if<Copy>(&bound.list[i])) {
        const auto bytes = static_cast<double>(copy->src.size);
        facts->push_back({.name = "copy", .ops = "copy back", .read_bytes = bytes, .written_bytes = bytes});
        continue;
      }
      const size_t k = bound.kernels[i];
      const auto& dispatch = std::get<Dispatch>(bound.list[i]);
      facts->push_back(kernel_facts_[k]);
      if (!lowered_[k].segments.empty()) take_share(lowered_[k], dispatch, facts->back());
      facts->back().launch = save_launch(lowered_[k].source, dispatch, table_of(bound, dispatch, lowered_[k]), facts->back());
    }
    return facts;
  }

  static void take_share(const LoweredKernel& kernel, const Dispatch& dispatch, KernelFacts& facts) {
    double groups = 0;
    for (const LoweredKernel::Segment& segment : kernel.segments) groups += static_cast<double>(segment.groups);
    const double share = dispatch.constants.at(0) / groups;
    facts.read_bytes *= share;
    facts.written_bytes *= share;
    facts.flops *= share;
  }

  // The rows that a launch over segments reads, its last binding; none for others.
  static std::span<const int32_t> table_of(const Bound& bound, const Dispatch& dispatch, const LoweredKernel& kernel) {
    if (kernel.segments.empty()) return {};
    const Binding& binding = dispatch.bindings.back();
    return std::span(bound.rows).subspan((binding.offset - bound.table->binding().offset) / sizeof(int32_t), binding.size / sizeof(int32_t));
  }

  void check_binding(const Binding& binding, const LoweredKernel& kernel) const {
    if (binding.size <= device_.caps().max_binding_bytes) return;
    throw LimitError(fmt::format("[{}] a tensor of {} bytes exceeds what one binding of {} may cover ({} bytes, max_binding_bytes)", kernel.source.name,
                                 binding.size, device_.id(), device_.caps().max_binding_bytes));
  }

  void submit(const Capture& captured, const std::vector<StoragePtr>& own, const std::vector<StoragePtr>& arena) {
    std::vector<Binding> wanted = signature(captured, own, arena);
    const bool profiled = Profiler::active(), timed = profiled || debug_level() >= 1;
    auto at = std::find_if(recordings_.begin(), recordings_.end(), [&](const Recording& r) { return r.signature == wanted && (r.facts != nullptr) == timed; });
    const HostSpan span("submit");
    auto locked = device_.lock();
    if (at == recordings_.end()) {
      Bound bound = commands(captured, own, arena);
      if (bound.list.empty()) return;
      if (recordings_.size() >= max_recordings) recordings_.erase(recordings_.begin());
      const RecordingId id = locked.device.record(bound.list, timed);
      std::vector<StoragePtr> memory = arena;
      if (bound.table) memory.push_back(bound.table);
      auto kept = std::make_shared<KeptRecording>(device_, id, bound.kernels.size(), std::move(memory), offloaded_);
      recordings_.push_back({std::move(wanted), std::move(kept), timed ? facts_of(bound) : nullptr});
      locked.counters.recordings++;
    } else {
      std::rotate(at, at + 1, recordings_.end());  // most recently used last
    }
    const double submitted = profiled ? Profiler::now() : 0;
    const Ticket ticket = locked.device.submit(recordings_.back().kept->id());
    device_.remember(ticket);
    for (const StoragePtr& storage : captured.storages) storage->last_use = ticket;
    for (const StoragePtr& storage : own) storage->last_use = ticket;
    if (profiled) Profiler::note(device_, ticket, recordings_.back().facts, submitted);
    locked.counters.kernels += recordings_.back().kept->kernels();
    locked.counters.submissions++;
    if (recordings_.back().facts) debug_times(device_.id(), locked.device, ticket, *recordings_.back().facts);
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
      View view = output.view;
      if (output.assign_slot >= 0) storage = captured.storages[static_cast<size_t>(output.assign_slot)];
      else if (base.leaf >= 0) {
        const auto slot = static_cast<size_t>(scheduled_.graph.leaves[base.leaf].slot);
        storage = captured.storages[slot];
        view.offset += static_cast<int64_t>(captured.bases[slot] / size_of(base.dtype));
      }
      else if (const auto at = plan_.own_storage.find(output.base); at != plan_.own_storage.end()) storage = own[at->second];
      else storage = assigned_storage(output.base, captured);
      result.outputs.push_back({std::move(storage), view});
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
  std::unique_ptr<StepImpl> once_;
  std::vector<int> once_slots_;  // that it reads
  std::vector<Seen> once_seen_;  // by once_slots_, when it ran
  std::vector<StoragePtr> once_values_;
  ScheduledGraph scheduled_;
  std::vector<LoweredKernel> lowered_;
  Plan plan_;
  std::vector<std::vector<Place>> places_;  // by kernel
  std::vector<KernelId> kernels_;
  std::vector<KernelFacts> kernel_facts_;  // of lowered_; made when a profiler asks
  StoragePtr host_;
  std::shared_ptr<HostBlock> offloaded_;
  std::vector<Recording> recordings_;
  std::vector<StoragePtr> arena_;  // of the recordings
};

Step::Step(std::unique_ptr<StepImpl> impl) : impl_(std::move(impl)) {}
Step::~Step() = default;

std::shared_ptr<Step> Step::compile(DeviceContext& device, const Capture& captured, bool fuse, const std::vector<uint16_t>& varies) {
  return std::shared_ptr<Step>(new Step(std::make_unique<StepImpl>(device, captured, fuse, varies)));
}

StepResult Step::run(DeviceContext&, const Capture& captured, const std::vector<StoragePtr>* own) { return impl_->run(captured, own); }
void Step::forget_recordings() { impl_->forget_recordings(); }
size_t Step::kernel_count() const { return impl_->kernel_count(); }
uint64_t Step::arena_bytes() const { return impl_->arena_bytes(); }
const std::vector<std::vector<Place>>& Step::places() const { return impl_->places(); }

}  // namespace heddle
