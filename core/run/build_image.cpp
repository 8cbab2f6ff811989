#include "heddle/core/run/build_image.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "heddle/core/inspect/traffic.h"
#include "heddle/core/memory/planned_loop.h"

namespace heddle {
namespace {

using Place = GraphImage::Place;
using Launch = GraphImage::Launch;

class ImageBuilder {
 public:
  ImageBuilder(const Plan& plan, const Caps& caps, std::span<const std::vector<std::string>> lines)
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
    image_.launches = launches(plan_.scheduled, plan_.kernels, place, [this](size_t k) { return lines_[k]; });
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
      list.push_back(launch(kernels[k], place, std::move(facts[k])));
    }
    return list;
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
  std::span<const std::vector<std::string>> lines_;
  GraphImage image_;
  std::unordered_map<uint64_t, int32_t> kernels_;  // by hash
};

}  // namespace

GraphImage build_image(const Plan& plan, const Caps& caps, std::span<const std::vector<std::string>> lines) {
  return ImageBuilder(plan, caps, lines).build();
}

}  // namespace heddle
