#include "heddle/onnx/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace heddle::onnx {
namespace {

constexpr const char* sized_by_values[] = {"NonZero", "Compress", "Unique", "NonMaxSuppression"};

class Reporter {
 public:
  Reporter(const ModelFile& model, const CustomOps& custom, Report& report)
      : model_(model), custom_(custom), report_(report) {}

  // `types`: of names around.
  void graph(const Graph& graph, const Opsets& opsets, std::map<std::string, Type> types) {
    for (const Port& port : graph.inputs) {
      if (port.type != Type::none) types[port.name] = port.type;
    }
    for (const auto& [name, tensor] : graph.constants) types[name] = tensor.type;
    for (const Node& node : graph.nodes) this->node(node, opsets, types);
  }

 private:
  void node(const Node& node, const Opsets& opsets, std::map<std::string, Type>& types) {
    ++report_.nodes;
    const auto opset = opsets.find(node.domain);
    const int version = opset == opsets.end() ? 1 : opset->second;
    if (const std::string needs = needs_of(node, opset != opsets.end(), version, types); !needs.empty())
      add(node, version, needs);
    if (std::ranges::find(sized_by_values, node.op) != std::end(sized_by_values) && node.domain.empty())
      report_.waits.push_back(node.label);
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&attribute.value))
        graph(**inner, opsets, types);
    }
    const auto function = model_.functions.find({node.domain, node.op});
    if (function != model_.functions.end() && seen_.insert(&function->second).second)
      graph(function->second.body, function->second.opsets, {});
    // Ops that keep the type of their first input pass on one that no tensor has.
    const Type first = node.inputs.empty() ? Type::none : type_of(node.inputs[0], types);
    for (const std::string& output : node.outputs) {
      if (first == Type::text || first == Type::c64 || first == Type::c128) types[output] = first;
    }
  }

  static Type type_of(const std::string& name, const std::map<std::string, Type>& types) {
    const auto found = types.find(name);
    return found == types.end() ? Type::none : found->second;
  }

  std::string needs_of(const Node& node, bool imported, int version, const std::map<std::string, Type>& types) const {
    if (custom_.count({node.domain, node.op}) != 0 || model_.functions.count({node.domain, node.op}) != 0) return "";
    if (node.domain.empty() && version > newest_opset)
      return fmt::format("opset {}; {} is the newest that is known", version, newest_opset);
    const Op* nearest = nullptr;
    const Op* op = find_op(node.domain, node.op, version, &nearest);
    if (!op && nearest)
      return fmt::format("a row for opset {}; there is one from {} {}", version, nearest->first,
                         nearest->last == 0 ? "on" : fmt::format("to {}", nearest->last));
    if (!op && !imported) return fmt::format("an opset of domain '{}' in the file", node.domain);
    if (!op && !node.domain.empty())
      return fmt::format("a function for it (CustomOps), or one of domain '{}' in the file", node.domain);
    if (!op) return "a row in onnx/ops";
    for (const std::string& input : node.inputs) {
      const Type type = type_of(input, types);
      if (type != Type::none && !is_held(type)) return fmt::format("tensors of {}", name_of(type));
    }
    const std::string wrong = attribute_complaint(*op, NodeView(node, version, nullptr));
    return wrong.empty() ? "" : "another row: " + wrong;
  }

  void add(const Node& node, int version, const std::string& needs) {
    const std::string name = node.domain.empty() ? node.op : node.domain + "." + node.op;
    const auto same = std::ranges::find_if(report_.unsupported, [&](const UnsupportedOp& u) {
      return u.op == name && u.opset == version && u.needs == needs;
    });
    if (same != report_.unsupported.end()) return same->nodes.push_back(node.label);
    report_.unsupported.push_back({name, {node.label}, version, needs});
  }

  const ModelFile& model_;
  const CustomOps& custom_;
  Report& report_;
  std::set<const Function*> seen_;
};

}  // namespace

std::string Report::text() const {
  std::string lines;
  for (const UnsupportedOp& u : unsupported) {
    lines += fmt::format("{}{} (opset {}): needs {}; {} {}: {}", lines.empty() ? "" : "\n", u.op, u.opset, u.needs,
                         u.nodes.size(), u.nodes.size() == 1 ? "node" : "nodes", fmt::join(u.nodes, ", "));
  }
  return lines;
}

Report report_on(const ModelFile& model, const CustomOps& custom) {
  Report report;
  for (const Port& input : model.graph.inputs) {
    if (model.graph.constants.count(input.name) == 0) report.inputs.push_back(input);
  }
  report.outputs = model.graph.outputs;
  report.opsets = model.opsets;
  Reporter(model, custom, report).graph(model.graph, model.opsets, {});
  std::ranges::stable_sort(report.unsupported, {}, &UnsupportedOp::op);
  return report;
}

}  // namespace heddle::onnx
