#include "heddle/core/run/compiled_graph.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "heddle/core/base/debug_switch.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/host_span.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/with_note.h"
#include "heddle/core/inspect/traffic.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/ir/source_lines.h"
#include "heddle/core/memory/planned_loop.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/run/chains.h"
#include "heddle/core/run/debug_plan.h"
#include "heddle/core/run/early_cuts.h"
#include "heddle/core/run/image_bytes.h"
#include "heddle/core/run/launcher.h"
#include "heddle/core/run/planner.h"
#include "heddle/core/run/turned_weights.h"
#include "heddle/core/simplify/precomputed.h"
#include "heddle/core/tiles/shared_links.h"

namespace heddle {
namespace {

using Place = GraphImage::Place;
using Launch = GraphImage::Launch;

std::vector<std::string> texts_of(const std::vector<SourceLine>& lines) {
  std::vector<std::string> texts;
  for (const SourceLine& line : lines) texts.push_back(line.str());
  return texts;
}

// From a plan to its image: vertices become places, kernels of one text become one. `lines`: by kernel of the plan, the
// user's lines that it comes from (core/ir/source_lines.h).
class ImageBuilder {
 public:
  ImageBuilder(const Plan& plan, const Caps& caps, std::span<const std::vector<SourceLine>> lines)
      : plan_(plan), lines_(lines) {
    image_.target = name_of(caps.target);
    image_.driver_hash = caps.image_hash();
    image_.host_values = plan.scheduled.graph.host_slots;
    image_.own_bytes = plan.memory.own_bytes;
    image_.arena_bytes = plan.memory.arena.block_bytes;
    image_.host_bytes = plan.memory.host_bytes;
  }

  GraphImage build() {
    image_.input_bytes.resize(static_cast<size_t>(plan_.scheduled.graph.storage_slots), 0);
    for (const IrNode& node : plan_.scheduled.graph.nodes) note_input(node);
    const auto place = [this](const SlotRef& slot) { return outer_place(slot); };
    image_.launches = launches(plan_.scheduled, plan_.kernels, place, [this](size_t k) { return texts_of(lines_[k]); });
    for (const OutputPlan& output : plan_.scheduled.outputs) add(output);
    return std::move(image_);
  }

 private:
  using PlaceOf = std::function<Place(const SlotRef&)>;
  using LinesOf = std::function<std::vector<std::string>(size_t)>;

  void note_input(const IrNode& node) {
    if (node.leaf < 0) return;
    const LeafInfo& leaf = plan_.scheduled.graph.leaves[static_cast<size_t>(node.leaf)];
    if (leaf.slot < 0) return;
    need(leaf.slot, static_cast<uint64_t>(leaf.view.extent().second + 1) * size_of(node.dtype));
  }
  void need(int slot, uint64_t bytes) {
    uint64_t& least = image_.input_bytes[static_cast<size_t>(slot)];
    least = std::max(least, bytes);
  }

  Place outer_place(const SlotRef& slot) const {
    if (slot.kind == SlotRef::Kind::input) return {Place::Kind::input, slot.index, 0, 0};
    if (slot.kind == SlotRef::Kind::host) return {Place::Kind::host, 0, 0, 0};
    if (const auto at = plan_.memory.own_storage.find(slot.index); at != plan_.memory.own_storage.end())
      return {Place::Kind::own, static_cast<int32_t>(at->second), 0, 0};
    return temporary(plan_.memory, slot.index);
  }
  static Place temporary(const MemoryPlan& memory, int vertex) {
    const size_t life = memory.temporaries.at(vertex);
    const Placement& at = memory.arena.placements[life];
    return {Place::Kind::arena, at.block, at.offset, memory.lifetimes[life].bytes};
  }
  // In a loop's body: its slots, and its arena's blocks one behind the other in the workspace.
  static Place inner_place(const PlannedLoop& loop, const SlotRef& slot) {
    if (slot.kind == SlotRef::Kind::input) return {Place::Kind::input, slot.index, 0, 0};
    if (slot.kind == SlotRef::Kind::host) return {Place::Kind::host, 0, 0, 0};
    Place place = temporary(loop.body.memory, slot.index);
    place.offset += loop.block_places[static_cast<size_t>(place.index)];
    place.index = 0;
    return place;
  }

  std::vector<Launch> launches(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels,
                               const PlaceOf& place, const LinesOf& lines) {
    std::vector<KernelFacts> facts = kernel_facts(scheduled, kernels);
    std::vector<Launch> list;
    for (size_t k = 0; k < kernels.size(); ++k) {
      facts[k].lines = lines(k);
      if (kernels[k].sections.empty())
        list.push_back(launch(kernels[k], place, std::move(facts[k])));
      else
        add_sections(list, kernels[k], place, facts[k]);
    }
    return list;
  }

  // A launch for each section, with an equal share of what the kernel does.
  void add_sections(std::vector<Launch>& list, const LoweredKernel& kernel, const PlaceOf& place, KernelFacts facts) {
    const auto count = static_cast<double>(kernel.sections.size());
    for (double* number : {&facts.read_bytes, &facts.written_bytes, &facts.flops}) *number /= count;
    for (const LoweredKernel::SectionLaunch& section : kernel.sections) {
      Launch made;
      std::copy(std::begin(section.groups), std::end(section.groups), made.groups.begin());
      made.constants = section.constants;
      made.loop_iterations = section.loop_iterations;
      made.facts = facts;
      made.facts.source = section.source.hash();
      made.index = add(section.source);
      for (size_t b = 0; b < section.bindings.size(); ++b)
        made.places.push_back(part(place(kernel.bindings[section.bindings[b]]), section.ranges[b]));
      list.push_back(std::move(made));
    }
  }

  static Place part(Place place, const ByteRange& range) {
    if (range.bytes == 0) return place;
    const uint64_t bytes = round_up(range.bytes, uint64_t{64});  // kernels may read the last word of it whole
    place.offset += range.begin;
    place.bytes = place.bytes == 0 ? range.bytes : std::min(bytes, place.bytes - range.begin);
    return place;
  }

  Launch launch(const LoweredKernel& kernel, const PlaceOf& place, KernelFacts facts) {
    Launch made;
    std::copy(std::begin(kernel.groups), std::end(kernel.groups), made.groups.begin());
    made.places = places(kernel.bindings, place);
    made.constants = kernel.constants;
    made.loop_iterations = kernel.loop_iterations;
    made.facts = std::move(facts);
    if (kernel.loop) {
      made.kind = Launch::Kind::loop;
      made.index = add(*kernel.loop, made.facts.lines);
    } else if (kernel.is_transfer()) {
      made.kind = kernel.source.buffers[0].access == Access::read ? Launch::Kind::to_host : Launch::Kind::from_host;
      made.host_offset = kernel.host_offset;
    } else {
      made.kind = kernel.joined.empty() ? Launch::Kind::kernel : Launch::Kind::joined;
      made.index = add(kernel.source);
      for (const LoweredKernel::JoinedRow& row : kernel.joined)
        made.joined.push_back({places(row.bindings, place), row.constants, row.groups});
    }
    return made;
  }

  static std::vector<Place> places(const std::vector<SlotRef>& slots, const PlaceOf& place) {
    std::vector<Place> all;
    all.reserve(slots.size());
    for (const SlotRef& slot : slots) all.push_back(place(slot));
    return all;
  }

  int32_t add(const KernelSource& source) {
    const auto [at, fresh] = kernels_.try_emplace(source.hash(), static_cast<int32_t>(image_.kernels.size()));
    if (fresh) image_.kernels.push_back({source, {.signature = signature_of(source)}});
    return at->second;
  }

  int32_t add(const PlannedLoop& loop, const std::vector<std::string>& lines) {
    GraphImage::Loop made;
    made.places = loop;
    made.body = launches(
        loop.body.scheduled, loop.body.kernels, [&](const SlotRef& slot) { return inner_place(loop, slot); },
        [&](size_t) { return lines; });
    image_.loops.push_back(std::move(made));
    return static_cast<int32_t>(image_.loops.size()) - 1;
  }

  void add(const OutputPlan& output) {
    const ScheduledGraph& scheduled = plan_.scheduled;
    const IrNode& base = scheduled.graph.nodes[static_cast<size_t>(output.base)];
    const uint64_t bytes = static_cast<uint64_t>(output.view.extent().second + 1) * size_of(base.dtype);
    if (output.assign_slot >= 0) {
      need(output.assign_slot, bytes);
      image_.assigned.push_back(output.assign_slot);
      image_.outputs.push_back({GraphImage::Output::Kind::input, output.assign_slot, output.view, 0});
      if (output.copy_back && output.view.shape.numel() > 0)
        image_.copies.push_back({outer_place({SlotRef::Kind::vertex, output.base}), output.assign_slot});
    } else if (base.leaf >= 0) {
      const int slot = scheduled.graph.leaves[static_cast<size_t>(base.leaf)].slot;
      image_.outputs.push_back(
          {GraphImage::Output::Kind::input, slot, output.view, static_cast<uint32_t>(size_of(base.dtype))});
    } else if (const auto at = plan_.memory.own_storage.find(output.base); at != plan_.memory.own_storage.end()) {
      image_.outputs.push_back({GraphImage::Output::Kind::own, static_cast<int32_t>(at->second), output.view, 0});
    } else {  // written straight where another output assigns it
      image_.outputs.push_back({GraphImage::Output::Kind::input, scheduled.assigned_slot(output.base), output.view, 0});
    }
  }

  const Plan& plan_;
  std::span<const std::vector<SourceLine>> lines_;
  GraphImage image_;
  std::unordered_map<uint64_t, int32_t> kernels_;  // by hash
};

// What planning a graph gives beside its image.
struct Planned {
  Plan plan;
  std::vector<std::vector<SourceLine>> lines;
  GraphImage image;
  std::vector<size_t> kernels;  // of the plan, by launch of the image
  std::vector<size_t> early;    // by early output, the segment that ends it
};

Planned plan_graph(DeviceContext& device, Graph graph, const Capture& captured, bool fuse,
                   const std::vector<int>& early = {}) {
  Planned made{
      .plan = make_plan(std::move(graph), device.caps(), fuse, active_passes(), graph_budget(device, captured), early),
      .lines = {},
      .image = {},
      .kernels = {},
      .early = {}};
  made.lines = kernel_lines(made.plan.scheduled, made.plan.kernels, captured);
  debug_plan(made.plan.scheduled, made.plan.kernels, made.plan.memory);
  made.image = ImageBuilder(made.plan, device.caps(), made.lines).build();
  for (size_t k = 0; k < made.plan.kernels.size(); ++k)
    made.kernels.insert(made.kernels.end(), std::max<size_t>(1, made.plan.kernels[k].sections.size()), k);
  EarlyCuts cuts = early_cuts(made.plan, made.kernels);
  made.image.cuts = std::move(cuts.cuts);
  made.early = std::move(cuts.segments);
  return made;
}

// Every image that a plan gives is written to bytes and read back, and the one that was read is run: the suite proves
// with it that an image is data.
struct ThroughBytes {
  static constexpr const char* variable = "HEDDLE_IMAGES_THROUGH_BYTES";
};

GraphImage read_back(const GraphImage& image) {
  const std::vector<uint8_t> bytes = image_bytes(image);
  GraphImage read = image_from_bytes(bytes);
  if (image_bytes(read) != bytes) throw std::logic_error("[image] an image is not what was written of it");
  return read;
}

}  // namespace

std::shared_ptr<CompiledGraph> CompiledGraph::compile(DeviceContext& device, const Capture& captured, bool fuse,
                                                      const std::vector<uint16_t>& varies) {
  const Caps& caps = device.caps();
  const LoweringScope lowering(captured);
  const bool chained = fuse && chains_wanted(device);
  const SharedLinksScope shared_links(chained && varies.empty() && shares_links(caps));
  const HostSpan span("plan");
  const Graph imported = import_graph(captured, varies);
  Graph graph = prepare(imported, caps, fuse);
  debug_graph(imported, graph, caps);
  if (fuse) graph = with_planned_loops(std::move(graph), caps);
  if (fuse && RepeatedScope::active()) graph = turn_weights(std::move(graph), caps);
  std::optional<Planned> once;
  std::vector<int> once_slots;
  if (std::optional<OnceSplit> split = fuse ? split_once(graph) : std::nullopt) {
    once = plan_graph(device, std::move(split->once), captured, true);
    once_slots = std::move(split->slots);
    graph = std::move(split->rest);
  }
  Planned planned = plan_graph(device, std::move(graph), captured, fuse, captured.early);
  // Kernels for any size stay what they are: chains of other sizes would be other ones.
  std::vector<Chain> chains;
  if (chained && !anything_varies(planned.plan.scheduled.graph)) chains = chain_launches(planned.image, caps);
  if (once) {
    planned.image.once.push_back(std::move(once->image));
    planned.image.once_slots.assign(once_slots.begin(), once_slots.end());
  }
  std::shared_ptr<CompiledGraph> made(new CompiledGraph);
  made->report_ = make_memory_report(captured, planned.plan);
  made->fullest_ = static_cast<size_t>(planned.plan.memory.fullest);
  for (const LoweredKernel& kernel : planned.plan.kernels) made->names_.push_back(kernel.source.name);
  made->lines_ = std::move(planned.lines);
  made->early_ = std::move(planned.early);
  for (const Chain& chain : chains) {
    const std::vector<size_t>& of = planned.kernels;
    const size_t first = of[chain.first], last = of[chain.first + chain.count - 1];
    made->name_chain(chain.name, first, last - first + 1);
  }
  if (DebugSwitch<ThroughBytes>::on()) planned.image = read_back(planned.image);
  made->launcher_ = with_note([&] { return std::make_unique<Launcher>(device, std::move(planned.image)); },
                              [&](std::string_view text) { return made->note(text, true); });
  return made;
}

// Of the last segment; what needed nothing has ended.
Event CompiledGraph::end_of(const GraphResult& result) {
  if (result.last == Ticket::none || result.outputs.empty()) return {};
  return {result.outputs.front().storage->device(), result.last};
}

// An error that names the chain means the lines of its steps.
void CompiledGraph::name_chain(const std::string& name, size_t first, size_t count) {
  std::vector<SourceLine> lines;
  for (size_t k = first; k < first + count; ++k) {
    for (const SourceLine& line : lines_[k]) {
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    }
  }
  names_.push_back(name);
  lines_.push_back(std::move(lines));
}

CompiledGraph::~CompiledGraph() = default;

GraphResult CompiledGraph::run(const Capture& captured, const std::vector<StoragePtr>* own, const Ready& ready) {
  const auto tell = [&](size_t segment, const Event& end) {
    for (size_t e = 0; e < early_.size(); ++e) {
      if (early_[e] == segment) ready(e, end);
    }
  };
  Launcher::Between between;
  if (ready && !launcher_->image().cuts.empty()) between = tell;
  try {
    GraphResult result = with_note(
        [&] {
          return launcher_->run({captured.storages, captured.bases, captured.host_values}, own, between);
        },
        [this](std::string_view text) { return note(text, true); });
    if (ready) tell(launcher_->image().cuts.size(), end_of(result));
    return result;
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(error.what() + note_fullest(), error.memory_use());
  }
}

MemoryReport CompiledGraph::memory() const {
  MemoryReport report = report_;
  report.measured = launcher_->measured_bytes();
  return report;
}

const GraphImage& CompiledGraph::image() const { return launcher_->image(); }

uint64_t CompiledGraph::arena_bytes() const {
  uint64_t bytes = 0;
  for (const uint64_t block : launcher_->image().arena_bytes) bytes += block;
  return bytes;
}

std::string CompiledGraph::lines_note(std::string_view text) const { return note(text, false); }

// Where the kernels that an error names were recorded (or all): core/ir/source_lines.h.
std::string CompiledGraph::note(std::string_view text, bool all) const {
  return heddle::lines_note(text, names_, lines_, all);
}

// The same for what makes the graph large.
std::string CompiledGraph::note_fullest() const {
  const std::string list = fullest_ < lines_.size() ? list_lines(lines_[fullest_]) : "";
  return list.empty() ? "" : "; this step needs most while it computes " + list;
}

}  // namespace heddle
