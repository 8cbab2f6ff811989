#include "heddle/onnx/export/recorded.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/loop_node.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::onnx {
namespace {

// One node a recording.
using Nodes = std::vector<NodePtr>;

// Rows that ONNX has no op for and that mean the same as simpler ones.
bool is_decomposed(const OpDef& op) {
  return &op == &ops::attention_op || &op == &ops::cross_entropy_op || &op == &ops::copy_rows_op ||
         &op == &ops::custom_op;
}

// What was recorded: the stand-ins, and the notes that functions left.
struct Recording {
  Nodes inputs, results;
  CompositeNotes notes;
};

class Zip {
 public:
  Zip(const Symbols& symbols, const std::vector<const CompositeNotes*>& notes, const KeepsComposite& keeps)
      : symbols_(symbols), notes_(notes), keeps_(keeps) {}

  void leaf(const Nodes& nodes, int number) {
    const int at = vertex(nodes);
    graph_.vertices[static_cast<size_t>(at)].input = number;
  }
  int add(Nodes root);
  RecordedGraph finish(std::vector<int> results);

 private:
  struct Frame {
    Nodes nodes;
    std::vector<Nodes> children;  // an empty one: left out
    std::vector<const Composite*> notes;
    std::vector<int> inputs;  // of the children so far
    bool decomposed;          // the only child stands for it
  };

  [[noreturn]] void differ(const heddle::Node& node) const {
    throw ValueError(
        fmt::format("[export] the function records other operations for other sizes (at {}); give numbers "
                    "in place of the names of sizes",
                    describe(node)));
  }
  std::vector<const Composite*> notes_of(const Nodes& nodes) const;
  Frame frame(Nodes nodes);
  int found(const Nodes& nodes) const;
  int vertex(const Nodes& nodes);
  int finish_frame(Frame& frame);
  void set_attributes(Vertex& made, const Frame& frame) const;
  std::shared_ptr<const RecordedGraph> body_of(const Nodes& loop, const std::vector<int>& asked) const;

  template <class Get>
  Sizes sizes(const Nodes& nodes, size_t count, const Get& get) const {
    Sizes result;
    std::vector<int64_t> values(nodes.size());
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < nodes.size(); ++k) values[k] = get(k, i);
      result.push_back(symbols_.fitted(values, fmt::format("a number of {}", describe(*nodes[0]))));
    }
    return result;
  }

  const Symbols& symbols_;
  const std::vector<const CompositeNotes*>& notes_;
  const KeepsComposite& keeps_;
  RecordedGraph graph_;
  struct Known {
    int at;
    Nodes nodes;
  };
  std::unordered_map<const heddle::Node*, Known> known_;  // by the node of the first recording
  std::vector<Nodes> nodes_;                              // by vertex
};

// Empty unless the composite stays whole.
std::vector<const Composite*> Zip::notes_of(const Nodes& nodes) const {
  std::vector<const Composite*> notes;
  for (size_t k = 0; k < nodes.size() && k < notes_.size(); ++k) {
    const auto found = notes_[k]->find(nodes[k].get());
    const Composite* note = found == notes_[k]->end() ? nullptr : &found->second;
    if (!note || (k > 0 && (note->name != notes[0]->name || note->ints.size() != notes[0]->ints.size()))) return {};
    notes.push_back(note);
  }
  if (notes.empty() || !keeps_(*notes[0])) return {};
  return notes;
}

Zip::Frame Zip::frame(Nodes nodes) {
  Frame made{nodes, {}, notes_of(nodes), {}, false};
  if (!made.notes.empty()) {
    for (size_t i = 0; i < made.notes[0]->inputs.size(); ++i) {
      Nodes child;
      for (const Composite* note : made.notes) {
        if (note->inputs[i]) child.push_back(note->inputs[i]);
      }
      if (!child.empty() && child.size() != nodes.size()) differ(*nodes[0]);
      made.children.push_back(std::move(child));
    }
    return made;
  }
  if (nodes[0]->has_value()) return made;
  if (is_decomposed(*nodes[0]->op)) {
    for (NodePtr& node : nodes) node = node->op->decompose(*node).node();
    made.children.push_back(std::move(nodes));
    made.decomposed = true;
    return made;
  }
  for (size_t i = 0; i < nodes[0]->inputs.size(); ++i) {
    Nodes child;
    for (const NodePtr& node : nodes) {
      if (node->op != nodes[0]->op || node->inputs.size() != nodes[0]->inputs.size()) differ(*nodes[0]);
      child.push_back(node->inputs[i]);
    }
    made.children.push_back(std::move(child));
  }
  return made;
}

// The vertex of nodes that were met; -1: none yet.
int Zip::found(const Nodes& nodes) const {
  const auto at = known_.find(nodes[0].get());
  if (at == known_.end()) return -1;
  if (at->second.nodes != nodes) differ(*nodes[0]);
  return at->second.at;
}

int Zip::add(Nodes root) {
  if (const int at = found(root); at >= 0) return at;
  std::vector<Frame> stack;
  stack.push_back(frame(std::move(root)));
  int last = -1;
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.inputs.size() < top.children.size()) {
      const Nodes& child = top.children[top.inputs.size()];
      const int at = child.empty() ? -1 : found(child);
      if (child.empty() || at >= 0)
        top.inputs.push_back(at);
      else
        stack.push_back(frame(child));
      continue;
    }
    last = finish_frame(top);
    stack.pop_back();
  }
  return last;
}

int Zip::finish_frame(Frame& frame) {
  if (frame.decomposed) {
    known_.emplace(frame.nodes[0].get(), Known{frame.inputs[0], frame.nodes});
    return frame.inputs[0];
  }
  const int at = vertex(frame.nodes);
  Vertex& made = graph_.vertices[static_cast<size_t>(at)];
  made.inputs = frame.inputs;
  set_attributes(made, frame);
  return at;
}

int Zip::vertex(const Nodes& nodes) {
  const heddle::Node& first = *nodes[0];
  Vertex made;
  made.op = first.has_value() ? &ops::leaf_op : first.op;
  made.dtype = first.dtype;
  made.node = nodes[0];
  for (const NodePtr& node : nodes) {
    if (node->op != first.op || node->dtype != first.dtype || node->shape.rank() != first.shape.rank() ||
        node->has_value() != first.has_value())
      differ(first);
  }
  made.shape = sizes(nodes, static_cast<size_t>(first.shape.rank()),
                     [&](size_t k, size_t i) { return nodes[k]->shape[static_cast<int>(i)]; });
  // What the function uploads is made anew by each call: it must be the same.
  for (const NodePtr& node : nodes) {
    if (first.has_value() && node != nodes[0] && Tensor(node).to_bytes() != Tensor(nodes[0]).to_bytes()) differ(first);
  }
  const int at = static_cast<int>(graph_.vertices.size());
  known_.emplace(&first, Known{at, nodes});
  nodes_.push_back(nodes);
  graph_.vertices.push_back(std::move(made));
  return at;
}

void Zip::set_attributes(Vertex& made, const Frame& frame) const {
  if (!frame.notes.empty()) {
    const Composite& note = *frame.notes[0];
    made.composite = note.name;
    made.ints = sizes(frame.nodes, note.ints.size(), [&](size_t k, size_t i) { return frame.notes[k]->ints[i]; });
    made.real = note.real;
    return;
  }
  const heddle::Node& first = *frame.nodes[0];
  if (first.has_value()) return;
  for (const NodePtr& node : frame.nodes) {
    if (node->attrs.ints.size() != first.attrs.ints.size()) differ(first);
    if (node->attrs.real == first.attrs.real && node->attrs.real2 == first.attrs.real2) continue;
    throw ValueError(fmt::format("[export] a number of {} depends on a size that varies: give a number in its place",
                                 describe(first)));
  }
  made.ints =
      sizes(frame.nodes, first.attrs.ints.size(), [&](size_t k, size_t i) { return frame.nodes[k]->attrs.ints[i]; });
  made.real = first.attrs.real;
  made.real2 = first.attrs.real2;
}

// Bodies are walked when it is known which of their values are asked for.
RecordedGraph Zip::finish(std::vector<int> results) {
  std::unordered_map<int, std::set<int>> asked;
  for (const Vertex& vertex : graph_.vertices) {
    if (vertex.op != &ops::loop_result_op || vertex.inputs.empty()) continue;
    std::set<int>& numbers = asked[vertex.inputs[0]];
    if (vertex.ints[0].number() != 0) numbers.insert(static_cast<int>(vertex.ints[1].number()));
  }
  for (const auto& [at, numbers] : asked)
    graph_.vertices[static_cast<size_t>(at)].body =
        body_of(nodes_[static_cast<size_t>(at)], {numbers.begin(), numbers.end()});
  graph_.results = std::move(results);
  return std::move(graph_);
}

std::shared_ptr<const RecordedGraph> Zip::body_of(const Nodes& loop, const std::vector<int>& asked) const {
  std::vector<const LoopBody*> bodies;
  for (const NodePtr& node : loop) bodies.push_back(as_loop(*node).body.get());
  const auto across = [&](const auto& get) {
    Nodes nodes;
    for (const LoopBody* body : bodies) nodes.push_back(get(*body));
    return nodes;
  };
  for (const LoopBody* body : bodies) {
    if (body->order.size() != bodies[0]->order.size() || body->args.size() != bodies[0]->args.size()) differ(*loop[0]);
  }
  const std::vector<const CompositeNotes*> none;
  Zip zip(symbols_, none, keeps_);
  for (size_t i = 0; i < bodies[0]->args.size(); ++i)
    zip.leaf(across([&](const LoopBody& body) { return body.args[i]; }), static_cast<int>(i));
  std::vector<int> results;
  for (size_t c = 0; c < static_cast<size_t>(LoopShape::of(*loop[0]).carries); ++c)
    results.push_back(zip.add(across([&](const LoopBody& body) { return body.results[c]; })));
  std::map<int, int> stacked;
  for (const int k : asked)
    stacked[k] = zip.add(across([&](const LoopBody& body) { return body.order[static_cast<size_t>(k)]; }));
  RecordedGraph graph = zip.finish(std::move(results));
  graph.stacked = std::move(stacked);
  return std::make_shared<const RecordedGraph>(std::move(graph));
}

std::vector<std::string> names_in(const std::vector<ExportInput>& inputs) {
  std::vector<std::string> names;
  for (const ExportInput& input : inputs) {
    for (const Dimension& d : input.shape) {
      if (!d.size && d.name.empty())
        throw ValueError(fmt::format("[export] a size of input {} has neither a number nor a name", input.name));
      if (!d.size && std::ranges::find(names, d.name) == names.end()) names.push_back(d.name);
    }
  }
  return names;
}

Shape shape_of(const ExportInput& input, const Symbols& symbols, const std::vector<int64_t>& values) {
  Shape shape;
  for (const Dimension& d : input.shape) shape.push_back(d.size ? *d.size : values[symbols.index(d.name)]);
  return shape;
}

Recording call(const ExportFunction& function, const std::vector<ExportInput>& inputs, const Symbols& symbols,
               size_t number, DeviceContext& device) {
  Recording made;
  std::vector<Tensor> arguments;
  for (const ExportInput& input : inputs) {
    heddle::Node like;
    like.dtype = input.dtype;
    like.device = &device;
    made.inputs.push_back(make_example(like, shape_of(input, symbols, symbols.values(number))));
    arguments.emplace_back(made.inputs.back());
  }
  CompositeScope scope;
  const std::vector<Tensor> results = function(arguments);
  made.notes = scope.take();
  for (const Tensor& result : results) {
    if (!result.defined()) throw ValueError("[export] the function gives an undefined tensor");
    made.results.push_back(result.node());
  }
  if (made.results.empty()) throw ValueError("[export] the function gives no tensor");
  return made;
}

Sizes input_sizes(const ExportInput& input, const Symbols& symbols) {
  Sizes sizes;
  for (const Dimension& d : input.shape) sizes.push_back(d.size ? Size(*d.size) : Size::of_name(symbols.index(d.name)));
  return sizes;
}

}  // namespace

Recorded record(const ExportFunction& function, const std::vector<ExportInput>& inputs, DeviceContext& device,
                const KeepsComposite& keeps) {
  const NoGradScope no_grad;
  Recorded made{Symbols(names_in(inputs)), {}, {}};
  std::vector<Recording> recordings;
  const ExampleScope examples;
  try {
    for (size_t k = 0; k < made.symbols.recordings(); ++k)
      recordings.push_back(call(function, inputs, made.symbols, k, device));
  } catch (const ValueError& error) {
    const std::string_view what = error.what();
    if (what.starts_with("[assign]"))
      throw ValueError(
          fmt::format("[export] the function changes what it reads: a model is to be in evaluation mode "
                      "(eval()). {}",
                      what));
    if (!what.starts_with("[vmap] a value that depends on an example")) throw;
    throw ValueError(
        "[export] the function looks at values that it computes: its graph is not the same for all inputs");
  }
  std::vector<const CompositeNotes*> notes;
  for (const Recording& recording : recordings) notes.push_back(&recording.notes);
  Zip zip(made.symbols, notes, keeps);
  const auto across = [&](const auto& get) {
    Nodes nodes;
    for (const Recording& recording : recordings) nodes.push_back(get(recording));
    return nodes;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    zip.leaf(across([&](const Recording& r) { return r.inputs[i]; }), static_cast<int>(i));
    made.inputs.push_back(input_sizes(inputs[i], made.symbols));
  }
  std::vector<int> results;
  for (size_t i = 0; i < recordings[0].results.size(); ++i)
    results.push_back(zip.add(across([&](const Recording& r) { return r.results[i]; })));
  made.graph = zip.finish(std::move(results));
  return made;
}

}  // namespace heddle::onnx
