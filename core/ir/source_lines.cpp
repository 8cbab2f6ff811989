#include "heddle/core/ir/source_lines.h"

#include <algorithm>

#include "heddle/core/base/ascii.h"

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

SourceLine group_line(const Graph& graph, const Group& group) {
  if (lowered == nullptr) return {};
  const std::vector<SourceLine> lines = vertex_lines(graph, *lowered);
  if (group.anchor >= 0 && lines[static_cast<size_t>(group.anchor)].known())
    return lines[static_cast<size_t>(group.anchor)];
  for (const Member& member : group.members) {
    if (lines[static_cast<size_t>(member.node)].known()) return lines[static_cast<size_t>(member.node)];
  }
  return {};
}

std::string lines_note(std::string_view text, const std::vector<std::string>& kernels,
                       const std::vector<std::vector<SourceLine>>& lines, bool all) {
  std::vector<SourceLine> named, every;
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (const SourceLine& line : lines[k]) {
      if (std::find(every.begin(), every.end(), line) == every.end()) every.push_back(line);
      if (names(text, kernels[k]) && std::find(named.begin(), named.end(), line) == named.end()) named.push_back(line);
    }
  }
  const std::string list = list_lines(named.empty() && all ? every : named);
  return list.empty() ? "" : "; computes " + list;
}

std::vector<SourceLine> vertex_lines(const Graph& graph, const Capture& captured) {
  std::vector<SourceLine> lines(graph.nodes.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    if (const int origin = graph.nodes[i].origin; origin >= 0)
      lines[i] = captured.order[static_cast<size_t>(origin)]->where;
  }
  // Inputs come before their users: one pass backwards reaches everything that was made for somebody.
  for (size_t i = lines.size(); i-- > 0;) {
    if (!lines[i].known()) continue;
    for (int input : graph.nodes[i].inputs) {
      SourceLine& line = lines[static_cast<size_t>(input)];
      const IrNode& node = graph.nodes[static_cast<size_t>(input)];
      if (!line.known() && node.leaf < 0 && node.origin < 0) line = lines[i];
    }
  }
  return lines;
}

std::vector<std::vector<SourceLine>> kernel_lines(const ScheduledGraph& scheduled,
                                                  const std::vector<LoweredKernel>& kernels, const Capture& captured) {
  const std::vector<SourceLine> of_vertex = vertex_lines(scheduled.graph, captured);
  std::vector<std::vector<SourceLine>> all;
  all.reserve(kernels.size());
  for (const LoweredKernel& kernel : kernels) {
    std::vector<int> vertices = kernel.vertices;
    std::sort(vertices.begin(), vertices.end());
    std::vector<SourceLine> lines;
    for (int vertex : vertices) {
      const SourceLine& line = of_vertex[static_cast<size_t>(vertex)];
      if (line.known() && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    }
    all.push_back(std::move(lines));
  }
  return all;
}

}  // namespace heddle
