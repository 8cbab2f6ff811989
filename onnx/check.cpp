#include "heddle/onnx/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"

namespace heddle::onnx {
namespace {

using Names = std::set<std::string>;

// Names of a graph and of those around it.
struct Scope {
  Names own;
  const Scope* around = nullptr;
  bool has(const std::string& name) const { return own.count(name) != 0 || (around && around->has(name)); }
};

class Checker {
 public:
  explicit Checker(const std::string& path) : path_(path) {}

  void graph(Graph& graph, const Scope* around) {
    Scope scope{{}, around};
    for (const Port& input : graph.inputs) declare(input.name, scope, false, "input");
    for (const auto& constant : graph.constants) {
      const std::string& name = constant.first;
      const bool is_default = std::ranges::any_of(graph.inputs, [&](const Port& p) { return p.name == name; });
      if (!is_default) declare(name, scope, false, "initializer");
    }
    for (const Node& node : graph.nodes) {
      for (const std::string& output : node.outputs) {
        if (!output.empty()) declare(output, scope, true, "output of a node");
      }
    }
    order(graph.nodes, scope);
    for (Node& node : graph.nodes) subgraphs(node, scope);
    for (const Port& output : graph.outputs) {
      if (!scope.has(output.name)) fail(fmt::format("output '{}' is made by no node", output.name));
    }
  }

  void function(Function& function) {
    Graph& body = function.body;
    for (const std::string& name : function.inputs) body.inputs.emplace_back().name = name;
    for (const std::string& name : function.outputs) body.outputs.emplace_back().name = name;
    graph(body, nullptr);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw IoError(fmt::format("[onnx] {}: {}", path_, shortened(what, 400)));
  }

 private:
  void declare(const std::string& name, Scope& scope, bool unique, const char* what) {
    if (name.empty()) fail(fmt::format("an {} has no name", what));
    if ((unique && scope.has(name)) || !scope.own.insert(name).second)
      fail(fmt::format("the name '{}' of an {} is taken", name, what));
  }

  void subgraphs(Node& node, const Scope& scope) {
    for (auto& [name, attribute] : node.attributes) {
      auto* inner = std::get_if<std::shared_ptr<const Graph>>(&attribute.value);
      if (!inner) continue;
      Graph copy = **inner;
      graph(copy, &scope);
      *inner = std::make_shared<const Graph>(std::move(copy));
    }
  }

  // Names that a node reads of its own graph, those of its subgraphs among them.
  void reads(const Node& node, Names& into) const {
    for (const std::string& input : node.inputs) into.insert(input);
    for (const auto& [name, attribute] : node.attributes) {
      const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&attribute.value);
      if (!inner) continue;
      for (const Node& n : (*inner)->nodes) reads(n, into);
      for (const Port& output : (*inner)->outputs) into.insert(output.name);
    }
  }

  // Stays as it is where it is in order: after each node those whose inputs are all there.
  void order(std::vector<Node>& nodes, const Scope& scope) const {
    std::map<std::string, size_t> maker;
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const std::string& output : nodes[i].outputs) maker[output] = i;
    }
    std::vector<std::vector<size_t>> readers(nodes.size());
    std::vector<size_t> missing(nodes.size(), 0);
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const std::string& input : nodes[i].inputs) {
        if (!input.empty() && !scope.has(input))
          fail(fmt::format("node {} reads '{}', which nothing makes", nodes[i].label, input));
      }
      Names names;
      reads(nodes[i], names);
      for (const std::string& name : names) {
        const auto made = name.empty() ? maker.end() : maker.find(name);
        if (made == maker.end()) continue;
        readers[made->second].push_back(i);
        ++missing[i];
      }
    }
    sort(nodes, readers, missing);
  }

  void sort(std::vector<Node>& nodes, const std::vector<std::vector<size_t>>& readers,
            std::vector<size_t>& missing) const {
    std::set<size_t> ready;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (missing[i] == 0) ready.insert(i);
    }
    std::vector<Node> sorted;
    while (!ready.empty()) {
      const size_t i = *ready.begin();
      ready.erase(ready.begin());
      for (const size_t reader : readers[i]) {
        if (--missing[reader] == 0) ready.insert(reader);
      }
      sorted.push_back(std::move(nodes[i]));
    }
    if (sorted.size() < nodes.size()) {
      const auto left = std::ranges::find_if(missing, [](size_t n) { return n > 0; });
      fail(fmt::format("node {} depends on itself", nodes[static_cast<size_t>(left - missing.begin())].label));
    }
    nodes = std::move(sorted);
  }

  const std::string& path_;
};

// Functions that a graph calls.
void called(const ModelFile& model, const Graph& graph, std::vector<const Function*>& into) {
  for (const Node& node : graph.nodes) {
    const auto found = model.functions.find({node.domain, node.op});
    if (found != model.functions.end()) into.push_back(&found->second);
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&attribute.value)) called(model, **inner, into);
    }
  }
}

// How deep calls of functions are nested below this one; fails at a circle.
int call_depth(const ModelFile& model, const Function& function, std::map<const Function*, int>& depths,
               const Checker& checker) {
  const auto known = depths.find(&function);
  if (known != depths.end()) {
    if (known->second < 0) checker.fail(fmt::format("function {} calls itself", function.name));
    return known->second;
  }
  depths[&function] = -1;
  std::vector<const Function*> callees;
  called(model, function.body, callees);
  int depth = 0;
  for (const Function* callee : callees) depth = std::max(depth, call_depth(model, *callee, depths, checker) + 1);
  if (depth > 64) checker.fail("functions call each other more than 64 deep");
  return depths[&function] = depth;
}

}  // namespace

void check(ModelFile& model, const std::string& path) {
  Checker checker(path);
  checker.graph(model.graph, nullptr);
  for (auto& [key, function] : model.functions) checker.function(function);
  std::map<const Function*, int> depths;
  for (const auto& [key, function] : model.functions) call_depth(model, function, depths, checker);
}

}  // namespace heddle::onnx
