#include "core/run/compiled_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/host_span.h"
#include "core/base/with_note.h"
#include "core/inspect/profile.h"
#include "core/inspect/saved_launch.h"
#include "core/ir/source_lines.h"
#include "core/lower/lower.h"
#include "core/memory/planned_loop.h"
#include "core/record/capture.h"
#include "core/run/commands.h"
#include "core/run/debug.h"
#include "core/run/graph_result.h"
#include "core/run/planner.h"
#include "core/run/replay.h"
#include "core/simplify/precomputed.h"

namespace heddle {
// ---- GraphCache

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
    return at->second->step;
  }
  return nullptr;
}

void GraphCache::insert(const std::vector<uint64_t>& key, std::shared_ptr<CompiledGraph> step) {
  if (entries_.size() >= max_steps) {
    const auto [begin, end] = by_hash_.equal_range(entries_.back().hash);
    by_hash_.erase(std::find_if(begin, end, [&](const auto& at) { return at.second == std::prev(entries_.end()); }));
    entries_.pop_back();
  }
  entries_.push_front({key, hash_words(key), std::move(step)});
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
    for (Entry& entry : entries_) entry.step->forget_recordings();
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
    if (std::string note = entry.step->lines_note(text); !note.empty()) return note;
  }
  return {};
}

// ---- CompiledGraph

class CompiledGraphImpl {
 public:
  CompiledGraphImpl(DeviceContext& device, const Capture& captured, bool fuse, const std::vector<uint16_t>& varies)
      : device_(device) {
    const Caps& caps = device.caps();
    const LoweringScope lowering(captured);
    const HostSpan span("plan");
    const Graph imported = import_graph(captured, varies);
    Graph graph = prepare(imported, caps, fuse);
    debug_graph(imported, graph, caps);
    if (std::optional<OnceSplit> split = fuse ? split_once(graph) : std::nullopt) {
      once_.reset(new CompiledGraphImpl(device, std::move(split->once), captured));
      once_slots_ = std::move(split->slots);
      graph = std::move(split->rest);
    }
    build(std::move(graph), captured, fuse);
  }

  GraphResult run(const Capture& captured, const std::vector<StoragePtr>* given) {
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

  // Where the kernels that an error names were recorded (or all): core/ir/source_lines.h.
  std::string note(std::string_view text, bool all) const { return lines_note(text, lowered_, lines_, all); }
  // The same for what makes the graph large.
  std::string note_fullest() const {
    const auto k = static_cast<size_t>(plan_.fullest);
    const std::string list = k < lines_.size() ? list_lines(lines_[k]) : "";
    return list.empty() ? "" : "; this step needs most while it computes " + list;
  }

  void forget_recordings() {
    if (once_) once_->forget_recordings();
    recordings_.clear();
    arena_.clear();
  }

  size_t kernel_count() const {
    size_t launches = 0;
    for (const LoweredKernel& kernel : lowered_) launches += launches_of(kernel);
    return launches;
  }
  uint64_t arena_bytes() const { return plan_.arena.total(); }
  const std::vector<std::vector<SourceLine>>& lines() const { return lines_; }
  const MemoryReport& memory() const { return report_; }

 private:
  CompiledGraphImpl(DeviceContext& device, Graph graph, const Capture& captured) : device_(device) {
    build(std::move(graph), captured, true);
  }

  void build(Graph graph, const Capture& captured, bool fuse) {
    Plan planned = make_plan(std::move(graph), device_.caps(), fuse, active_passes(), graph_budget(device_, captured));
    report_ = make_memory_report(captured, planned);
    auto& [scheduled, kernels, memory] = planned;
    scheduled_ = std::move(scheduled);
    lowered_ = std::move(kernels);
    plan_ = std::move(memory);
    lines_ = kernel_lines(scheduled_, lowered_, captured);
    debug_plan(scheduled_, lowered_, plan_);
    kernels_ = with_note([&] { return compile_kernels(device_, lowered_); },
                         [this](std::string_view text) { return note(text, true); });
  }

  GraphResult run_bound(const Capture& captured, const std::vector<StoragePtr>* given) {
    std::vector<StoragePtr> own = given ? *given : device_.allocate_results(plan_.own_bytes);
    std::vector<StoragePtr> arena;
    for (size_t b = 0; b < plan_.arena.block_bytes.size(); ++b)
      arena.push_back(graph_cache(device_).arena(device_, b, plan_.arena.block_bytes[b]));
    if (arena != arena_) {  // what was recorded with another one is never found again, and would keep its memory
      recordings_.clear();
      arena_ = arena;
    }
    if (plan_.host_bytes > 0 && !offloaded_) offloaded_ = graph_cache(device_).host_block(device_, plan_.host_bytes);
    write_host_values(captured);
    submit(captured, own, arena);
    report_.measured = std::max(report_.measured, device_.memory().live_bytes);
    GraphResult result = collect(captured, own);
    result.own = std::move(own);
    for (const OutputPlan& output : scheduled_.outputs) {
      if (output.assign_slot >= 0) captured.storages[static_cast<size_t>(output.assign_slot)]->version++;
    }
    return result;
  }

  // ---- what is computed once (core/simplify/precomputed.h)
  struct Seen {
    std::weak_ptr<Storage> storage;  // weak: an owner more, and it would not be updated in place
    uint64_t version = 0, base = 0;
  };

  bool once_values_hold(const Capture& captured) const {
    if (once_values_.empty()) return false;
    for (size_t i = 0; i < once_slots_.size(); ++i) {
      const StoragePtr& now = captured.storages[static_cast<size_t>(once_slots_[i])];
      const uint64_t base = captured.bases[static_cast<size_t>(once_slots_[i])];
      if (once_seen_[i].storage.lock() != now || once_seen_[i].version != now->version || once_seen_[i].base != base)
        return false;
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

  // All host values of the graph in one small write.
  void write_host_values(const Capture& captured) {
    if (captured.host_values.empty()) return;
    const uint64_t bytes = captured.host_values.size() * sizeof(HostValue);
    if (!host_) host_ = device_.allocate(bytes);
    device_.write(*host_, 0, captured.host_values.data(), bytes);
  }

  // Memory that a recording is bound to.
  struct Memory {
    const Capture& captured;
    const std::vector<StoragePtr>& own;
    const std::vector<StoragePtr>& arena;
  };

  Binding bind(SlotRef slot, const Memory& memory) const {
    if (slot.kind == SlotRef::Kind::input) return memory.captured.binding(static_cast<size_t>(slot.index));
    if (slot.kind == SlotRef::Kind::host) return host_->binding();
    if (const auto at = plan_.own_storage.find(slot.index); at != plan_.own_storage.end())
      return memory.own[at->second]->binding();
    const size_t life = plan_.temporaries.at(slot.index);
    const Placement& place = plan_.arena.placements[life];
    const Binding block = memory.arena[static_cast<size_t>(place.block)]->binding();
    return {block.buffer, block.offset + place.offset, plan_.lifetimes[life].bytes};
  }

  std::vector<Binding> signature(const Capture& captured, const std::vector<StoragePtr>& own,
                                 const std::vector<StoragePtr>& arena) const {
    std::vector<Binding> all;
    all.reserve(captured.storages.size() + own.size() + arena.size());
    for (size_t slot = 0; slot < captured.storages.size(); ++slot) all.push_back(captured.binding(slot));
    for (const StoragePtr& s : own) all.push_back(s->binding());
    for (const StoragePtr& s : arena) all.push_back(s->binding());
    return all;
  }

  Copy transfer(const LoweredKernel& kernel, const Binding& here) const {
    const Binding there{offloaded_->buffer(), kernel.host_offset, here.size};
    return kernel.source.buffers[0].access == Access::read ? Copy{here, there} : Copy{there, here};
  }

  Bound commands(const Memory& memory) const {
    CommandBuilder builder(device_, kernels_);
    const Binding host = host_ ? host_->binding() : Binding{};
    for (size_t k = 0; k < lowered_.size(); ++k) {
      const LoweredKernel& kernel = lowered_[k];
      const LineScope scope(lines_[k].empty() ? SourceLine() : lines_[k].front());
      if (kernel.is_transfer()) {
        builder.transfer(transfer(kernel, bind(kernel.bindings[0], memory)));
        continue;
      }
      builder.add(kernel, host, [&](const std::vector<SlotRef>& slots) {
        std::vector<Binding> bindings;
        for (const SlotRef& slot : slots) bindings.push_back(bind(slot, memory));
        return bindings;
      });
    }
    for (const OutputPlan& output : scheduled_.outputs) {
      if (!output.copy_back || output.view.shape.numel() == 0) continue;
      builder.copy(bind({SlotRef::Kind::vertex, output.base}, memory),
                   memory.captured.storages[static_cast<size_t>(output.assign_slot)]->binding());
    }
    return builder.take();
  }

  // Of the kernels of a plan and of the bodies of its loops, which have the lines of the loop.
  void add_facts(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels,
                 const std::function<std::vector<std::string>(size_t)>& lines) {
    const std::vector<KernelFacts> facts = kernel_facts(scheduled, kernels);
    for (size_t k = 0; k < kernels.size(); ++k) {
      if (kernels[k].loop) {
        add_facts(kernels[k].loop->body.scheduled, kernels[k].loop->body.kernels,
                  [&, here = lines(k)](size_t) { return here; });
        continue;
      }
      KernelFacts& known = kernel_facts_[&kernels[k]] = facts[k];
      known.lines = lines(k);
    }
  }

  // One entry per command. What a kernel over joined rows does is shared out to its launches by their work groups.
  std::shared_ptr<const std::vector<KernelFacts>> facts_of(const Bound& bound) {
    if (kernel_facts_.empty()) {
      add_facts(scheduled_, lowered_, [&](size_t k) {
        std::vector<std::string> lines;
        for (const SourceLine& line : lines_[k]) lines.push_back(line.str());
        return lines;
      });
    }
    auto facts = std::make_shared<std::vector<KernelFacts>>();
    for (size_t i = 0; i < bound.list.size(); ++i) {
      if (const auto* copy = std::get_if<Copy>(&bound.list[i])) {
        const auto bytes = static_cast<double>(copy->src.size);
        facts->push_back({.name = "copy", .ops = "copy back", .read_bytes = bytes, .written_bytes = bytes});
        continue;
      }
      const LoweredKernel& kernel = *bound.kernels[i];
      const auto& dispatch = std::get<Dispatch>(bound.list[i]);
      facts->push_back(kernel_facts_.at(&kernel));
      if (!kernel.joined.empty()) take_share(kernel, dispatch, facts->back());
      facts->back().launch = save_launch(kernel.source, dispatch, table_of(bound, dispatch, kernel), facts->back());
    }
    return facts;
  }

  static void take_share(const LoweredKernel& kernel, const Dispatch& dispatch, KernelFacts& facts) {
    double groups = 0;
    for (const LoweredKernel::JoinedRow& row : kernel.joined) groups += static_cast<double>(row.groups);
    const double share = dispatch.constants.at(0) / groups;
    facts.read_bytes *= share;
    facts.written_bytes *= share;
    facts.flops *= share;
  }

  // The rows that a launch over joined rows reads, its last binding; none for others.
  static std::span<const int32_t> table_of(const Bound& bound, const Dispatch& dispatch, const LoweredKernel& kernel) {
    if (kernel.joined.empty()) return {};
    const Binding& binding = dispatch.bindings.back();
    return std::span(bound.rows)
        .subspan((binding.offset - bound.table->binding().offset) / sizeof(int32_t), binding.size / sizeof(int32_t));
  }

  void submit(const Capture& captured, const std::vector<StoragePtr>& own, const std::vector<StoragePtr>& arena) {
    std::vector<Binding> wanted = signature(captured, own, arena);
    const bool profiled = Profiler::active(), timed = profiled || debug_level() >= 1;
    auto at = std::find_if(recordings_.begin(), recordings_.end(),
                           [&](const Recording& r) { return r.signature == wanted && (r.facts != nullptr) == timed; });
    const HostSpan span("submit");
    auto locked = device_.lock();
    if (at == recordings_.end()) {
      Bound bound = commands({captured, own, arena});
      if (bound.list.empty()) return;
      if (recordings_.size() >= max_recordings) recordings_.erase(recordings_.begin());
      const RecordingId id = locked.device.record(bound.list, timed);
      std::vector<StoragePtr> memory = arena;
      if (bound.table) memory.push_back(bound.table);
      auto kept = std::make_shared<KeptRecording>(device_, id, bound.launches, std::move(memory), offloaded_);
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

  GraphResult collect(const Capture& captured, const std::vector<StoragePtr>& own) const {
    GraphResult result;
    for (const OutputPlan& output : scheduled_.outputs) {
      const IrNode& base = scheduled_.graph.nodes[output.base];
      StoragePtr storage;
      View view = output.view;
      if (output.assign_slot >= 0)
        storage = captured.storages[static_cast<size_t>(output.assign_slot)];
      else if (base.leaf >= 0) {
        const auto slot = static_cast<size_t>(scheduled_.graph.leaves[base.leaf].slot);
        storage = captured.storages[slot];
        view.offset += static_cast<int64_t>(captured.bases[slot] / size_of(base.dtype));
      } else if (const auto at = plan_.own_storage.find(output.base); at != plan_.own_storage.end())
        storage = own[at->second];
      else
        storage = assigned_storage(output.base, captured);
      result.outputs.push_back({std::move(storage), view});
    }
    return result;
  }

  StoragePtr assigned_storage(int base, const Capture& captured) const {
    for (const OutputPlan& other : scheduled_.outputs) {
      if (other.base == base && other.assign_slot >= 0)
        return captured.storages[static_cast<size_t>(other.assign_slot)];
    }
    throw std::logic_error("[step] an output has no storage");
  }

  DeviceContext& device_;
  std::unique_ptr<CompiledGraphImpl> once_;
  std::vector<int> once_slots_;  // that it reads
  std::vector<Seen> once_seen_;  // by once_slots_, when it ran
  std::vector<StoragePtr> once_values_;
  ScheduledGraph scheduled_;
  std::vector<LoweredKernel> lowered_;
  MemoryPlan plan_;
  std::vector<std::vector<SourceLine>> lines_;  // by kernel
  MemoryReport report_;
  KernelTable kernels_;
  std::unordered_map<const LoweredKernel*, KernelFacts> kernel_facts_;  // made when a profiler asks
  StoragePtr host_;
  std::shared_ptr<HostBlock> offloaded_;
  std::vector<Recording> recordings_;
  std::vector<StoragePtr> arena_;  // of the recordings
};

CompiledGraph::CompiledGraph(std::unique_ptr<CompiledGraphImpl> impl) : impl_(std::move(impl)) {}
CompiledGraph::~CompiledGraph() = default;

std::shared_ptr<CompiledGraph> CompiledGraph::compile(DeviceContext& device, const Capture& captured, bool fuse,
                                                      const std::vector<uint16_t>& varies) {
  return std::shared_ptr<CompiledGraph>(
      new CompiledGraph(std::make_unique<CompiledGraphImpl>(device, captured, fuse, varies)));
}

GraphResult CompiledGraph::run(DeviceContext&, const Capture& captured, const std::vector<StoragePtr>* own) {
  try {
    return with_note([&] { return impl_->run(captured, own); },
                     [this](std::string_view text) { return impl_->note(text, true); });
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error.what() + impl_->note_fullest(), error.memory_use());
  }
}
void CompiledGraph::forget_recordings() { impl_->forget_recordings(); }
size_t CompiledGraph::kernel_count() const { return impl_->kernel_count(); }
uint64_t CompiledGraph::arena_bytes() const { return impl_->arena_bytes(); }
const std::vector<std::vector<SourceLine>>& CompiledGraph::lines() const { return impl_->lines(); }
const MemoryReport& CompiledGraph::memory() const { return impl_->memory(); }
std::string CompiledGraph::lines_note(std::string_view text) const { return impl_->note(text, false); }

}  // namespace heddle
