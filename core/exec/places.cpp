#include "core/exec/places.h"

#include <algorithm>

namespace heddle {

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
