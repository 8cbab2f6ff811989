// Which lines of the user's program each kernel of a step comes from.
//
// Purpose: profiles, dumps and faults name them. A vertex has the place of the recorded node that it came from (IrNode::origin); what a pass made for its
// own purpose has that of whoever reads it. Places are no part of a step's structure: a step that is found again, for a graph recorded by other lines,
// shows the places of its first recording.
// Invariants: places of a kernel are in the order of its vertices, each once, all known. Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/caller.h"
#include "core/ir/groups.h"
#include "core/ir/lowered_kernel.h"

namespace heddle {

// Of each vertex of a graph that any pass has made of the captured one.
std::vector<Place> vertex_places(const Graph& graph, const Capture& captured);
// Of each kernel, parallel to `kernels`.
std::vector<std::vector<Place>> kernel_places(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const Capture& captured);

// While alive, the thread lowers what was captured there: errors of lowering name places.
class LoweringScope {
 public:
  explicit LoweringScope(const Capture& captured);
  ~LoweringScope();
  LoweringScope(const LoweringScope&) = delete;
  LoweringScope& operator=(const LoweringScope&) = delete;

 private:
  const Capture* before_;
};
// Of the group's anchor, or its first member with a known one, by vertex_places() of that capture; unknown outside of a scope.
Place group_place(const Graph& graph, const Group& group);

// Errors thrown meanwhile name that place, of an operation that is lowered or bound later than it was recorded; an unknown place changes nothing.
class PlaceScope {
 public:
  explicit PlaceScope(const Place& place) {
    if (!place.known()) return;
    if (place.backward) backward_.emplace(place);
    else forward_.emplace(place.caller);
  }

 private:
  std::optional<BackwardScope> backward_;
  std::optional<CallerScope> forward_;
};

// "; computes model.cpp:17, model.cpp:18": the places of those kernels whose names stand in the text, else of all if `all`; "" for none.
std::string places_note(std::string_view text, const std::vector<LoweredKernel>& kernels, const std::vector<std::vector<Place>>& places, bool all);

}  // namespace heddle
