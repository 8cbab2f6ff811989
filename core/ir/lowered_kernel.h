// LoweredKernel: a kernel and everything needed to launch it but the memory.
//
// Purpose: what lowering gives and the order of kernels, the memory planner, inspection and launching read.
// Invariants: said at each field. Thread safety: plain values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "heddle/core/contract/kernel_source.h"

namespace heddle {

struct PlannedLoop;

// Where a kernel's buffer comes from when a graph runs.
struct SlotRef {
  enum class Kind : uint8_t { input, vertex, host };
  Kind kind = Kind::input;
  int index = 0;
  auto operator<=>(const SlotRef&) const = default;
};

// Some bytes of a slot's memory; none: all of it.
struct ByteRange {
  uint64_t begin = 0, bytes = 0;
};

// A kernel and everything needed to launch it but the memory.
struct LoweredKernel {
  KernelSource source;
  uint32_t groups[3] = {1, 1, 1};
  std::vector<SlotRef> bindings;    // parallel to source.buffers
  std::vector<uint32_t> constants;  // parallel to source.constants
  std::vector<int> writes;  // vertices it stores; of a kernel that the planner repeats, those that the original stores
  std::vector<int>
      vertices;  // vertices it computes: members and inlined ones, of all its groups (core/ir/source_lines.h)
  int64_t loop_iterations = 0;  // of the work item with the most, all loops together
  bool sized = false;           // sizes vary, and one of them is in the text
  bool parallel = false;  // groups are independent and counted by Emitter::group_index(): core/lower/horizontal.h may
                          // join it with others

  // Not a kernel but a copy of its one binding to (Access::read) or from (Access::write) that offset of the graph's
  // host memory (core/memory/offload.h).
  static constexpr uint64_t no_transfer = ~uint64_t{0};
  uint64_t host_offset = no_transfer;
  bool is_transfer() const { return host_offset != no_transfer; }

  // A launch over many joined rows (core/lower/horizontal.h): then `bindings` and `constants` are empty, and the
  // source's last buffer is the table.
  struct JoinedRow {
    std::vector<SlotRef> bindings;    // parallel to source.buffers, but for the table
    std::vector<uint32_t> constants;  // the numbers of its row
    int64_t groups = 0;
  };
  std::vector<JoinedRow> joined;

  // Of a kernel whose memory is larger than a binding may be: it is launched once for each section of its work, bound
  // to a part of each buffer (core/lower/sections.h). `source`, `bindings`, `groups` and `constants` are then those of
  // the first.
  struct SectionLaunch {
    KernelSource source;
    uint32_t groups[3] = {1, 1, 1};
    std::vector<uint32_t> constants;
    std::vector<size_t> bindings;   // parallel to source.buffers: which of the kernel's
    std::vector<ByteRange> ranges;  // of each
    int64_t loop_iterations = 0;
  };
  std::vector<SectionLaunch> sections;

  // A loop (core/memory/planned_loop.h): no kernel of its own; `bindings` are its operands and results, and the source
  // names their access.
  std::shared_ptr<const PlannedLoop> loop;

  // Calls visit(slot, access) for every binding, of all joined rows.
  template <class F>
  void for_each_binding(const F& visit) const {
    for (size_t b = 0; b < bindings.size(); ++b) visit(bindings[b], source.buffers[b].access);
    for (const JoinedRow& row : joined) {
      for (size_t b = 0; b < row.bindings.size(); ++b) visit(row.bindings[b], source.buffers[b].access);
    }
  }
};

}  // namespace heddle
