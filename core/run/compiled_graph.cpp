#include "heddle/core/run/compiled_graph.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "heddle/core/base/debug_switch.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/host_span.h"
#include "heddle/core/base/with_note.h"
#include "heddle/core/ir/source_lines.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/run/build_image.h"
#include "heddle/core/run/debug_plan.h"
#include "heddle/core/run/image_bytes.h"
#include "heddle/core/run/launcher.h"
#include "heddle/core/run/planner.h"
#include "heddle/core/simplify/precomputed.h"

namespace heddle {
namespace {

// Every image that a plan gives is written to bytes and read back, and the one that was read is run: the suite proves
// with it that an image is data.
struct ThroughBytes {
  static constexpr const char* variable = "HEDDLE_IMAGES_THROUGH_BYTES";
};

std::vector<std::vector<std::string>> texts_of(const std::vector<std::vector<SourceLine>>& lines) {
  std::vector<std::vector<std::string>> all;
  for (const std::vector<SourceLine>& of_kernel : lines) {
    all.emplace_back();
    for (const SourceLine& line : of_kernel) all.back().push_back(line.str());
  }
  return all;
}

// What planning a graph gives beside its image.
struct Planned {
  Plan plan;
  std::vector<std::vector<SourceLine>> lines;
  GraphImage image;
};

Planned plan_graph(DeviceContext& device, Graph graph, const Capture& captured, bool fuse) {
  Planned made{
      .plan = make_plan(std::move(graph), device.caps(), fuse, active_passes(), graph_budget(device, captured)),
      .lines = {},
      .image = {}};
  made.lines = kernel_lines(made.plan.scheduled, made.plan.kernels, captured);
  debug_plan(made.plan.scheduled, made.plan.kernels, made.plan.memory);
  made.image = build_image(made.plan, device.caps(), texts_of(made.lines));
  return made;
}

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
  const HostSpan span("plan");
  const Graph imported = import_graph(captured, varies);
  Graph graph = prepare(imported, caps, fuse);
  debug_graph(imported, graph, caps);
  std::optional<Planned> once;
  std::vector<int> once_slots;
  if (std::optional<OnceSplit> split = fuse ? split_once(graph) : std::nullopt) {
    once = plan_graph(device, std::move(split->once), captured, true);
    once_slots = std::move(split->slots);
    graph = std::move(split->rest);
  }
  Planned planned = plan_graph(device, std::move(graph), captured, fuse);
  if (once) {
    planned.image.once.push_back(std::move(once->image));
    planned.image.once_slots.assign(once_slots.begin(), once_slots.end());
  }
  std::shared_ptr<CompiledGraph> made(new CompiledGraph);
  made->report_ = make_memory_report(captured, planned.plan);
  made->fullest_ = static_cast<size_t>(planned.plan.memory.fullest);
  for (const LoweredKernel& kernel : planned.plan.kernels) made->names_.push_back(kernel.source.name);
  made->lines_ = std::move(planned.lines);
  if (DebugSwitch<ThroughBytes>::on()) planned.image = read_back(planned.image);
  made->launcher_ = with_note([&] { return std::make_unique<Launcher>(device, std::move(planned.image)); },
                              [&](std::string_view text) { return made->note(text, true); });
  return made;
}

CompiledGraph::~CompiledGraph() = default;

GraphResult CompiledGraph::run(const Capture& captured, const std::vector<StoragePtr>* own) {
  try {
    return with_note(
        [&] {
          return launcher_->run({captured.storages, captured.bases, captured.host_values}, own);
        },
        [this](std::string_view text) { return note(text, true); });
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
