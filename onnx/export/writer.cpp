#include "heddle/onnx/export/writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"
#include "heddle/onnx/export/rows.h"

namespace heddle::onnx {
namespace {

std::string name_of_row(const OpDef& op) {
  return as_user(op) ? fmt::format("{} (a kernel of the user's)", op.name) : std::string(op.name);
}

// Every use of a name in a graph and those in it.
void rename(Graph& graph, const std::string& from, const std::string& to) {
  for (Node& node : graph.nodes) {
    std::ranges::replace(node.inputs, from, to);
    std::ranges::replace(node.outputs, from, to);
    for (auto& [name, attribute] : node.attributes) {
      const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&attribute.value);
      if (!inner) continue;
      auto changed = std::make_shared<Graph>(**inner);
      rename(*changed, from, to);
      attribute.value = std::shared_ptr<const Graph>(std::move(changed));
    }
  }
  for (Port& port : graph.outputs) {
    if (port.name == from) port.name = to;
  }
}

}  // namespace

Sizes broadcast_sizes(const std::vector<const Sizes*>& shapes) {
  Sizes result;
  for (const Sizes* shape : shapes) {
    if (shape->size() > result.size()) result.insert(result.begin(), shape->size() - result.size(), Size(1));
    const size_t before = result.size() - shape->size();
    for (size_t i = 0; i < shape->size(); ++i) {
      if ((*shape)[i] != Size(1)) result[before + i] = (*shape)[i];
    }
  }
  return result;
}

std::string Writer::fresh(const std::string& base) {
  std::string name = base;
  while (!used_.insert(name).second) name = fmt::format("{}_{}", base, ++counts_[base]);
  return name;
}

std::vector<std::string> Writer::node(Level& level, const std::string& op, std::vector<std::string> inputs,
                                      std::map<std::string, Attribute> attributes, size_t results,
                                      const std::string& domain) {
  Node made;
  for (size_t i = 0; i < results; ++i) made.outputs.push_back(fresh(op));
  made.name = made.label = made.outputs[0];
  made.op = op;
  made.domain = domain;
  made.inputs = std::move(inputs);
  made.attributes = std::move(attributes);
  level.graph.nodes.push_back(made);
  return made.outputs;
}

std::string Writer::full(Level& level, const Given& value, const Sizes& shape) {
  if (value.shape == shape) return value.name;
  return node(level, "Expand", {value.name, sizes(shape)});
}

// A dimension that varies is left to be inferred, or copied from its place, where that says it.
std::string Writer::reshaped(Level& level, const std::string& name, const Sizes& from, const Sizes& to) {
  if (from == to) return name;
  std::vector<int64_t> wanted;
  int inferred = 0;
  bool empty = false;
  for (size_t i = 0; i < to.size(); ++i) {
    const bool copied = !to[i].fixed() && i < from.size() && from[i] == to[i];
    inferred += !to[i].fixed() && !copied;
    empty = empty || to[i] == Size(0);
    wanted.push_back(to[i].fixed() ? to[i].number() : copied ? 0 : -1);
  }
  if (inferred <= 1 && !empty) return node(level, "Reshape", {name, wholes(wanted)});
  std::map<std::string, Attribute> attributes;
  if (empty) attributes["allowzero"] = {int64_t{1}};
  return node(level, "Reshape", {name, sizes(to)}, std::move(attributes));
}

std::string Writer::expression(Level& level, const std::string& name, const std::vector<Step>& steps,
                               const std::vector<std::string>& inputs, DType dtype, bool exact) {
  const std::vector<std::string> parameters = parameters_of(inputs.size());
  if (options_.functions && !exact && !is_one_op(steps)) {
    model_.functions.try_emplace({own_domain, name}, as_function(name, parameters, steps, options_.opset));
    model_.opsets[own_domain] = 1;
    return node(level, name, inputs, {}, own_domain);
  }
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) names[parameters[i]] = inputs[i];
  std::string last;
  for (const Step& step : steps) {
    std::vector<std::string> operands;
    for (const Operand& operand : step.operands) {
      if (const auto* known = std::get_if<std::string>(&operand.value))
        operands.push_back(names.at(*known));
      else if (const auto* real = std::get_if<double>(&operand.value))
        operands.push_back(number(*real, dtype));
      else if (const auto* one = std::get_if<int64_t>(&operand.value))
        operands.push_back(whole(Size(*one)));
      else
        operands.push_back(wholes(std::get<std::vector<int64_t>>(operand.value)));
    }
    last = names[step.result] = node(level, step.op, std::move(operands), step.attributes);
  }
  return last;
}

Given Writer::leaf(Level&, const Vertex& vertex) {
  if (!vertex.node->has_value()) {
    lacking("an input of another function that is recorded");
    return {"", vertex.shape};
  }
  const Tensor value(vertex.node);
  const HostTensor host = HostTensor::from_stored(type_of(vertex.dtype), value.shape(), value.to_bytes());
  const auto named = options_.parameters.find(vertex.node.get());
  if (named == options_.parameters.end()) return {constant(host, "constant"), vertex.shape};
  const std::string name = fresh(named->second);
  model_.graph.constants[name] = host;
  return {name, vertex.shape};
}

void Writer::vertices(Level& level) {
  for (const Vertex& vertex : level.recorded.vertices) {
    const size_t at = static_cast<size_t>(&vertex - level.recorded.vertices.data());
    if (!level.values[at].name.empty()) continue;  // an input
    if (vertex.op == &ops::leaf_op && vertex.composite.empty()) {
      level.values[at] = leaf(level, vertex);
      continue;
    }
    const bool composite = !vertex.composite.empty();
    const std::string_view name = composite ? vertex.composite : vertex.op->name;
    const int first = vertex.inputs.empty() ? -1 : vertex.inputs[0];
    const DType type = first < 0 ? vertex.dtype : level.recorded.vertices[static_cast<size_t>(first)].dtype;
    const ExportRow* row = as_user(*vertex.op) ? nullptr : find_export_row(name, composite, options_.opset, type);
    RowCall call(*this, level, vertex);
    if (!row) {
      call.lacks(name_of_row(*vertex.op));
    } else if (row->build) {
      row->build(call);
    } else {
      std::vector<std::string> inputs;
      std::vector<const Sizes*> shapes;
      for (size_t i = 0; i < call.count(); ++i) {
        inputs.push_back(call.lazy(i).name);
        shapes.push_back(&call.lazy(i).shape);
      }
      call.out(Given{expression(level, std::string(name), parse_expression(row->expression), inputs, type, row->exact),
                     broadcast_sizes(shapes)});
    }
    level.values[at] = std::move(call.result);
  }
}

Port Writer::port(const std::string& name, DType dtype, const Sizes& shape) const {
  Port made{name, PortKind::tensor, false, type_of(dtype), std::vector<Dimension>()};
  for (const Size& size : shape) {
    Dimension d;
    if (size.fixed()) d.size = size.number();
    // A name for what is one; other sizes follow from the inputs.
    for (size_t i = 0; i < symbols().names().size(); ++i) {
      if (size == Size::of_name(i)) d.name = symbols().names()[i];
    }
    made.shape->push_back(std::move(d));
  }
  return made;
}

Graph Writer::body(Level& around, const Vertex& loop, const std::vector<int>& stacked) {
  const RecordedGraph& recorded = *loop.body;
  Level level{recorded, {}, std::vector<Given>(recorded.vertices.size())};
  level.graph.name = fresh("body");
  const int64_t own = loop.ints[1].number() + loop.ints[2].number();  // carries and slices; others are from outside
  std::vector<std::pair<int64_t, Port>> ports;
  for (size_t at = 0; at < recorded.vertices.size(); ++at) {
    const Vertex& vertex = recorded.vertices[at];
    if (vertex.input < 0) continue;
    if (vertex.input >= own) {
      level.values[at] = around.values[static_cast<size_t>(loop.inputs[static_cast<size_t>(vertex.input)])];
      continue;
    }
    level.values[at] = {fresh(vertex.input < loop.ints[1].number() ? "state" : "slice"), vertex.shape};
    ports.emplace_back(vertex.input, port(level.values[at].name, vertex.dtype, vertex.shape));
  }
  std::ranges::sort(ports, {}, &std::pair<int64_t, Port>::first);
  for (auto& [number, made] : ports) level.graph.inputs.push_back(std::move(made));
  vertices(level);
  std::vector<int> results = recorded.results;
  for (const int k : stacked) results.push_back(recorded.stacked.at(k));
  for (const int at : results) {
    const Vertex& vertex = recorded.vertices[static_cast<size_t>(at)];
    // Each result is a value of its own.
    const std::string name =
        node(level, "Identity", {full(level, level.values[static_cast<size_t>(at)], vertex.shape)});
    level.graph.outputs.push_back(port(name, vertex.dtype, vertex.shape));
  }
  return std::move(level.graph);
}

void Writer::outputs(Level& level) {
  const std::vector<int>& results = level.recorded.results;
  for (size_t i = 0; i < results.size(); ++i) {
    const Vertex& vertex = level.recorded.vertices[static_cast<size_t>(results[i])];
    std::string name = full(level, level.values[static_cast<size_t>(results[i])], vertex.shape);
    const bool made = std::ranges::any_of(level.graph.nodes, [&](const Node& n) { return n.outputs[0] == name; });
    const bool taken = std::ranges::any_of(level.graph.outputs, [&](const Port& p) { return p.name == name; });
    if (!made || taken) name = node(level, "Identity", {name});
    rename(level.graph, name, options_.outputs[i]);
    for (Given& value : level.values) {
      if (value.name == name) value.name = options_.outputs[i];
    }
    level.graph.outputs.push_back(port(options_.outputs[i], vertex.dtype, vertex.shape));
  }
}

void Writer::check() const {
  if (lacking_.empty()) return;
  std::vector<std::string> all;
  for (const auto& [what, count] : lacking_)
    all.push_back(fmt::format("{} ({} {})", what, count, count == 1 ? "node" : "nodes"));
  throw ValueError(fmt::format("[export] ONNX of opset {} has no op for: {}", options_.opset, fmt::join(all, ", ")));
}

ModelFile Writer::finish() {
  model_.opsets[""] = options_.opset;
  for (const std::string& name : options_.outputs) used_.insert(name);
  Level level{recorded_.graph, {}, std::vector<Given>(recorded_.graph.vertices.size())};
  root_ = &level;
  for (const std::string& name : options_.inputs) used_.insert(name);
  for (size_t i = 0; i < options_.inputs.size(); ++i) {
    for (size_t at = 0; at < recorded_.graph.vertices.size(); ++at) {
      const Vertex& vertex = recorded_.graph.vertices[at];
      if (vertex.input != static_cast<int>(i)) continue;
      level.values[at] = {options_.inputs[i], recorded_.inputs[i]};
      level.graph.inputs.push_back(port(options_.inputs[i], vertex.dtype, recorded_.inputs[i]));
    }
  }
  vertices(level);
  outputs(level);
  check();
  level.graph.constants = std::move(model_.graph.constants);
  model_.graph = std::move(level.graph);
  root_ = nullptr;
  return std::move(model_);
}

}  // namespace heddle::onnx
