#include "heddle/core/lower/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/ir/uses.h"
#include "heddle/core/lower/kernel_buffers.h"

namespace heddle {
namespace {

constexpr int64_t most_sections = 4096;  // of one kernel

uint64_t bytes_of(const IrNode& node) { return static_cast<uint64_t>(node.shape.numel()) * size_of(node.dtype); }

// Into how many sections the work is cut along each variable, and what each of them touches.
class SectionPlanner {
 public:
  SectionPlanner(const LowerInput& in, const BindingLimit& limit, const Touched& touched)
      : in_(in), limit_(limit), touched_(touched) {
    const Group& group = in.group;
    for (int d = 0; d < group.domain.rank(); ++d) extents_[d] = group.domain[d];
    for (int d = 0; d < group.inner.rank(); ++d) extents_[group.domain.rank() + d] = group.inner[d];
    extents_.insert(touched.extents.begin(), touched.extents.end());
    lengths_ = extents_;
  }

  std::vector<Section> run() {
    for (;;) {
      std::vector<Section> sections = grid();
      const std::optional<SlotRef> large = bind(sections);
      if (!large) return sections;
      cut(*large);
    }
  }

  ByteRange range(const Section& section, SlotRef slot) const {
    const uint64_t all = limit_.bytes(slot);
    if (all == 0) return {};
    int64_t low = INT64_MAX, high = 0;
    for (const Touch& touch : touched_.touches) {
      if (touch.slot != slot) continue;
      if (!touch.index.affine()) return {0, all};
      const auto [first, last] = reach(section, touch.index);
      low = std::min(low, first * touch.element_bytes);
      high = std::max(high, (last + 1) * touch.element_bytes);
    }
    if (low == INT64_MAX) return {0, all};  // by a body that says nothing of it
    // Elements that a condition leaves out may lie outside of the slot.
    const auto end = std::clamp<uint64_t>(static_cast<uint64_t>(std::max<int64_t>(high, 1)), 1, all);
    const uint64_t begin = std::min(static_cast<uint64_t>(std::max<int64_t>(low, 0)), end - 1);
    const uint64_t aligned = begin / limit_.alignment() * limit_.alignment();
    return {aligned, end - aligned};
  }

 private:
  // What begins at a multiple of this many indices begins where a binding can, in every dense buffer.
  int64_t step_of(int variable) const {
    int64_t step = 1;
    for (const Touch& touch : touched_.touches) {
      const int64_t bytes = std::abs(touch.index.coefficient(variable)) * touch.element_bytes;
      const auto alignment = static_cast<int64_t>(limit_.alignment());
      if (bytes > 0) step = std::lcm(step, alignment / std::gcd(alignment, bytes));
    }
    return step;
  }

  // One more section along the variable, and more where their length would begin between the steps.
  int64_t shorter(int variable) const {
    const int64_t length = lengths_.at(variable), extent = extents_.at(variable), step = step_of(variable),
                  even = ceil_div(extent, ceil_div(extent, length) + 1);
    return length <= step ? std::min(even, length - 1) : std::min(round_up(even, step), round_up(length - step, step));
  }

  std::vector<Section> grid() const {
    std::vector<Section> all(1);
    for (const auto& [variable, extent] : extents_) {
      const int64_t length = lengths_.at(variable);
      if (length >= extent) continue;
      std::vector<Section> finer;
      for (const Section& section : all) {
        for (int64_t first = 0; first < extent; first += length) {
          finer.push_back(section);
          finer.back().first[variable] = first;
          finer.back().size[variable] = std::min(length, extent - first);
        }
      }
      if (static_cast<int64_t>(finer.size()) > most_sections) refuse(largest());
      all = std::move(finer);
    }
    return all;
  }

  // Smallest and largest value of an index.
  std::pair<int64_t, int64_t> reach(const Section& section, const Index& index) const {
    int64_t low = index.constant, high = index.constant;
    for (const auto& [variable, coefficient] : index.terms) {
      const auto size = section.size.find(variable);
      const int64_t count = size == section.size.end() ? extents_.at(variable) : size->second;
      low += coefficient * section.first_of(variable);
      high += coefficient * section.first_of(variable);
      (coefficient < 0 ? low : high) += coefficient * (count - 1);
    }
    return {low, high};
  }

  // Says what is not bound; a slot of which a section needs more than a binding may cover.
  std::optional<SlotRef> bind(std::vector<Section>& sections) const {
    for (Section& section : sections) {
      for (const SlotRef& slot : slots()) {
        const ByteRange bound = range(section, slot);
        if (bound.bytes > limit_.most()) return slot;
        section.begins[slot] = bound.begin;
      }
    }
    return std::nullopt;
  }

  std::vector<SlotRef> slots() const {
    std::vector<SlotRef> all;
    for (const Touch& touch : touched_.touches) {
      if (touch.slot.kind != SlotRef::Kind::host && std::find(all.begin(), all.end(), touch.slot) == all.end())
        all.push_back(touch.slot);
    }
    return all;
  }

  // One more section along the variable that moves most within the slot.
  void cut(SlotRef slot) {
    int best = -1;
    int64_t most = 0;
    for (const Touch& touch : touched_.touches) {
      if (touch.slot != slot) continue;
      if (!touch.index.affine()) refuse(slot);
      for (const auto& [variable, coefficient] : touch.index.terms) {
        const int64_t moved = std::abs(coefficient) * (lengths_.at(variable) - 1) * touch.element_bytes;
        if (!touched_.divisible.contains(variable) || moved <= most) continue;
        best = variable;
        most = moved;
      }
    }
    if (best < 0) refuse(slot);
    lengths_.at(best) = shorter(best);
  }

  SlotRef largest() const {
    const std::vector<SlotRef> all = slots();
    return *std::max_element(all.begin(), all.end(),
                             [&](const SlotRef& a, const SlotRef& b) { return limit_.bytes(a) < limit_.bytes(b); });
  }

  [[noreturn]] void refuse(SlotRef slot) const {
    const IrNode& node = in_.scheduled.graph.nodes[static_cast<size_t>(in_.group.members.back().node)];
    throw LimitError(fmt::format(
        "[{}] needs a value of {} bytes in one piece, and a binding of this device covers {} (max_binding_bytes)",
        node.op->name, limit_.bytes(slot), limit_.most()));
  }

  const LowerInput& in_;
  const BindingLimit& limit_;
  const Touched& touched_;
  std::map<int, int64_t> extents_, lengths_;  // by variable: its size, and that of a section
};

// Which of the first section's bindings one of another is: sections may meet their operands in another order.
size_t same_binding(const LoweredKernel& first, const LoweredKernel& part, size_t b) {
  const auto same = [&](size_t f) {
    return first.bindings[f] == part.bindings[b] && first.source.buffers[f].access == part.source.buffers[b].access;
  };
  if (b < first.bindings.size() && same(b)) return b;
  for (size_t f = 0; f < first.bindings.size(); ++f) {
    if (same(f)) return f;
  }
  throw std::logic_error("[lower] a section binds other memory than the first");
}

// The section's launch, without its ranges.
LoweredKernel::SectionLaunch launch_of(const LoweredKernel& first, const LoweredKernel& part) {
  LoweredKernel::SectionLaunch made{part.source, {}, part.constants, {}, {}, part.loop_iterations};
  std::copy(std::begin(part.groups), std::end(part.groups), made.groups);
  for (size_t b = 0; b < part.bindings.size(); ++b) made.bindings.push_back(same_binding(first, part, b));
  return made;
}

}  // namespace

BindingLimit::BindingLimit(const ScheduledGraph& scheduled, const Caps& caps)
    : scheduled_(scheduled), alignment_(std::max<uint64_t>(64, caps.buffer_alignment)) {
  most_ = std::max(alignment_, caps.max_binding_bytes / alignment_ * alignment_);
  for (const IrNode& node : scheduled.graph.nodes) {
    any_ = any_ || bytes_of(node) > most_;
    if (node.leaf < 0) continue;
    const LeafInfo& leaf = scheduled.graph.leaves[static_cast<size_t>(node.leaf)];
    if (leaf.slot < 0) continue;
    note(leaf.slot, static_cast<uint64_t>(leaf.view.extent().second + 1) * size_of(node.dtype));
  }
  for (const OutputPlan& output : scheduled.outputs) {
    if (output.assign_slot >= 0)
      note(output.assign_slot, bytes_of(scheduled.graph.nodes[static_cast<size_t>(output.base)]));
  }
}

void BindingLimit::note(int slot, uint64_t bytes) {
  inputs_.resize(std::max(inputs_.size(), static_cast<size_t>(slot) + 1), 0);
  uint64_t& most = inputs_[static_cast<size_t>(slot)];
  most = std::max(most, bytes);
  any_ = any_ || bytes > most_;
}

uint64_t BindingLimit::bytes(SlotRef slot) const {
  if (slot.kind == SlotRef::Kind::host) return 0;
  if (slot.kind == SlotRef::Kind::input) return inputs_[static_cast<size_t>(slot.index)];
  return bytes_of(scheduled_.graph.nodes[static_cast<size_t>(slot.index)]);
}

bool BindingLimit::exceeds(int vertex) const { return bytes(KernelBuffers(scheduled_).location(vertex)) > most_; }

bool BindingLimit::is_exceeded_by(const Group& group) const {
  if (!any_ || group.kind == GroupKind::join || group.kind == GroupKind::loop) return false;
  for (const Member& member : group.members) {
    if (member.stored && exceeds(member.node)) return true;
  }
  const std::vector<Use> uses = external_uses(scheduled_.graph, group, scheduled_.free_nodes);
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return exceeds(use.node); });
}

LoweredKernel lower_in_sections(const LowerInput& in, const BindingLimit& limit,
                                LoweredKernel (*lower)(const LowerInput& in)) {
  Touched touched;
  Section whole;
  whole.touched = &touched;
  LoweredKernel kernel = lower({in.scheduled, in.group, in.caps, in.options, &whole});
  // Bodies that know no sections say nothing of some slots: those are bound whole.
  for (const SlotRef& slot : kernel.bindings) {
    const bool noted = std::any_of(touched.touches.begin(), touched.touches.end(),
                                   [&](const Touch& touch) { return touch.slot == slot; });
    if (!noted) touched.touches.push_back({slot, 1, {0, {}, "any"}});
  }
  SectionPlanner planner(in, limit, touched);
  std::vector<LoweredKernel::SectionLaunch> all;
  for (Section& section : planner.run()) {
    Touched again;
    again.picks = touched.picks;
    section.touched = &again;
    LoweredKernel part = lower({in.scheduled, in.group, in.caps, in.options, &section});
    all.push_back(launch_of(all.empty() ? part : kernel, part));
    for (const SlotRef& slot : part.bindings)
      all.back().ranges.push_back(slot.kind == SlotRef::Kind::host ? ByteRange{} : planner.range(section, slot));
    if (all.size() == 1) kernel = std::move(part);
  }
  kernel.parallel = kernel.sized = false;
  for (const LoweredKernel::SectionLaunch& made : all)
    kernel.loop_iterations = std::max(kernel.loop_iterations, made.loop_iterations);
  kernel.sections = std::move(all);
  return kernel;
}

}  // namespace heddle
