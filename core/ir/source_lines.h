// Which lines of the user's program each kernel of a graph comes from.
//
// Purpose: profiles, dumps and faults name them. A vertex has the line of the recorded node that it came from
// (IrNode::origin); what a pass made for its own purpose has that of whoever reads it. Lines are no part of a graph's
// structure: a graph that is found again, for a graph recorded by other lines, shows the lines of its first recording.
// Invariants: lines of a kernel are in the order of its vertices, each once, all known. Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/caller.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"

namespace heddle {

// Of each vertex of a graph that any pass has made of the captured one.
std::vector<SourceLine> vertex_lines(const Graph& graph, const Capture& captured);
// Of each kernel, parallel to `kernels`.
std::vector<std::vector<SourceLine>> kernel_lines(const ScheduledGraph& scheduled,
                                                  const std::vector<LoweredKernel>& kernels, const Capture& captured);

// While alive, the thread lowers what was captured there: errors of lowering name lines.
class LoweringScope {
 public:
  explicit LoweringScope(const Capture& captured);
  ~LoweringScope();
  LoweringScope(const LoweringScope&) = delete;
  LoweringScope& operator=(const LoweringScope&) = delete;

 private:
  const Capture* before_;
};
// Of the group's anchor, or its first member with a known one, by vertex_lines() of that capture; unknown outside of a
// scope.
SourceLine group_line(const Graph& graph, const Group& group);

// Errors thrown meanwhile name that line, of an operation that is lowered or bound later than it was recorded; an
// unknown line changes nothing.
class LineScope {
 public:
  explicit LineScope(const SourceLine& line) {
    if (!line.known()) return;
    if (line.backward)
      backward_.emplace(line);
    else
      forward_.emplace(line.caller);
  }

 private:
  std::optional<BackwardScope> backward_;
  std::optional<CallerScope> forward_;
};

// "; computes model.cpp:17, model.cpp:18": the lines of those kernels whose names stand in the text, else of all if
// `all`; "" for none.
std::string lines_note(std::string_view text, const std::vector<std::string>& kernels,
                       const std::vector<std::vector<SourceLine>>& lines, bool all);

}  // namespace heddle
