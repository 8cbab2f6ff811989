#include <fmt/format.h>

#include <map>
#include <set>

#include "tools/dump_draw.h"

namespace heddle::tools {
namespace {

std::string dot_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string head(const std::string& title) {
  return fmt::format(
      "digraph step {{\n  label={};\n  labelloc=t;\n  fontname=\"sans-serif\";\n  node [shape=box, "
      "style=\"rounded,filled\", fillcolor=\"#eef3fa\", "
      "fontname=\"sans-serif\", fontsize=10];\n  edge [fontname=\"sans-serif\", fontsize=8, color=\"#8090a0\"];\n",
      dot_quoted(title));
}

// In dot, "\n" inside a string breaks the line.
std::string lines(std::initializer_list<std::string> parts) {
  std::string out = "\"";
  bool first = true;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!first) out += "\\n";
    first = false;
    const std::string q = dot_quoted(part);
    out += q.substr(1, q.size() - 2);
  }
  return out + "\"";
}

}  // namespace

std::string bytes_text(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes * 1e-3);
  return bytes < 1e9 ? fmt::format("{:.2f} MB", bytes * 1e-6) : fmt::format("{:.2f} GB", bytes * 1e-9);
}

std::string vertex_text(const Graph& graph, int id) {
  const IrNode& node = graph.nodes[static_cast<size_t>(id)];
  return fmt::format("%{} = {} {} {}", id, node.op->name, node.shape.str(), name_of(node.dtype));
}

std::string graph_dot(const Graph& graph, const std::string& title) {
  std::string text = head(title);
  std::set<int> outputs;
  for (const IrOutput& output : graph.outputs) outputs.insert(output.node);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const IrNode& node = graph.nodes[i];
    const char* color = outputs.contains(static_cast<int>(i)) ? "#f8dcc0" : node.leaf >= 0 ? "#dff0dc" : "#eef3fa";
    text += fmt::format(
        "  v{} [label={}, fillcolor=\"{}\"];\n", i,
        lines({std::string(node.op->name), fmt::format("{} {}", node.shape.str(), name_of(node.dtype))}), color);
    for (const int input : node.inputs) text += fmt::format("  v{} -> v{};\n", input, i);
  }
  return text + "}\n";
}

std::string kernels_dot(const FullPlan& full, const std::string& title) {
  const Graph& graph = full.plan.scheduled.graph;
  std::string text = head(title);
  std::map<int, size_t> writer;  // vertex -> kernel
  for (size_t k = 0; k < full.plan.kernels.size(); ++k) {
    const KernelFacts& f = full.kernels[k];
    const std::string ops = f.ops.size() > 60 ? f.ops.substr(0, 58) + ".." : f.ops;
    text += fmt::format("  k{} [label={}];\n", k,
                        lines({fmt::format("{} {}", k, f.name), ops, fmt::format("{} moved", bytes_text(f.bytes())),
                               f.lines.empty() ? "" : f.lines[0]}));
    for (const int vertex : full.plan.kernels[k].writes) writer[vertex] = k;
  }
  std::set<int> inputs;
  for (size_t k = 0; k < full.plan.kernels.size(); ++k) {
    std::set<std::pair<int, int>> drawn;
    full.plan.kernels[k].for_each_binding([&](const SlotRef& slot, Access access) {
      if (access == Access::write || !drawn.insert({static_cast<int>(slot.kind), slot.index}).second) return;
      if (slot.kind == SlotRef::Kind::input) {
        if (inputs.insert(slot.index).second)
          text += fmt::format("  i{} [label=\"input {}\", fillcolor=\"#dff0dc\"];\n", slot.index, slot.index);
        text += fmt::format("  i{} -> k{};\n", slot.index, k);
      } else if (const auto from = writer.find(slot.index);
                 slot.kind == SlotRef::Kind::vertex && from != writer.end() && from->second != k) {
        const IrNode& node = graph.nodes[static_cast<size_t>(slot.index)];
        text += fmt::format(
            "  k{} -> k{} [label={}];\n", from->second, k,
            lines({fmt::format("%{} {}", slot.index, node.shape.str()),
                   bytes_text(static_cast<double>(node.shape.numel()) * static_cast<double>(size_of(node.dtype)))}));
      }
    });
  }
  return text + "}\n";
}

}  // namespace heddle::tools
