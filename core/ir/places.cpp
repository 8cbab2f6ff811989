#include "core/ir/places.h"

#include <algorithm>

#include "core/base/ascii.h"

namespace heddle {
namespace {

thread_local const Capture* lowered = nullptr;

// Whether the name stands in the text as a word of its own: "add" is not in "add_many".
bool names(std::string_view text, std::string_view name) {
  const auto part = [&](size_t at) { return at < text.size() && continues_name(text[at]); };
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    if ((at == 0 || !part(at - 1)) && !part(at + name.size())) return true;
  }
  return false;
}

}  // namespace

LoweringScope::LoweringScope(const Capture& captured) : before_(lowered) { lowered = &captured; }
LoweringScope::~LoweringScope() { lowered = before_; }

Place group_place(const Graph& graph, const Group& group) {
  if (lowered == nullptr) return {};
  const std::vector<Place> places = vertex_places(graph, *lowered);
  if (group.anchor >= 0 && places[static_cast<size_t>(group.anchor)].known()) return places[static_cast<size_t>(group.anchor)];
  for (const Member& member : group.members) {
    if (places[static_cast<size_t>(member.node)].known()) return places[static_cast<size_t>(member.node)];
  }
  return {};
}

std::string places_note(std::string_view text, const std::vector<LoweredKernel>& kernels, const std::vector<std::vector<Place>>& places, bool all) {
  std::vector<Place> named, every;
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (const Place& place : places[k]) {
      if (std::find(every.begin(), every.end(), place) == every.end()) every.push_back(place);
      if (names(text, kernels[k].source.name) && std::find(named.begin(), named.end(), place) == named.end()) named.push_back(place);
    }
  }
  const std::string list = list_places(named.empty() && all ? every : named);
  return list.empty() ? "" : "; computes " + list;
}

std::vector<Place> vertex_places(const Graph& graph, const Capture& captured) {
  std::vector<Place> places(graph.nodes.size());
  for (size_t i = 0; i < places.size(); ++i) {
    if (const int origin = graph.nodes[i].origin; origin >= 0) places[i] = captured.order[static_cast<size_t>(origin)]->where;
  }
  // Inputs come before their users: one pass backwards reaches everything that was made for somebody.
  for (size_t i = places.size(); i-- > 0;) {
    if (!places[i].known()) continue;
    for (int input : graph.nodes[i].inputs) {
      Place& place = places[static_cast<size_t>(input)];
      const IrNode& node = graph.nodes[static_cast<size_t>(input)];
      if (!place.known() && node.leaf < 0 && node.origin < 0) place = places[i];
    }
  }
  return places;
}

std::vector<std::vector<Place>> kernel_places(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const Capture& captured) {
  const std::vector<Place> of_vertex = vertex_places(scheduled.graph, captured);
  std::vector<std::vector<Place>> all;
  all.reserve(kernels.size());
  for (const LoweredKernel& kernel : kernels) {
    std::vector<int> vertices = kernel.vertices;
    std::sort(vertices.begin(), vertices.end());
    std::vector<Place> places;
    for (int vertex : vertices) {
      const Place& place = of_vertex[static_cast<size_t>(vertex)];
      if (place.known() && std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
    }
    all.push_back(std::move(places));
  }
  return all;
}

}  // namespace heddle
