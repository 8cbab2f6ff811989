#include "heddle/core/graph/node.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/recycled.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/recompute_scope.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

thread_local bool recording_gradients = true;

[[noreturn]] void refuse_devices(const OpDef& op, const Node& a, const Node& b) {
  throw ValueError(fmt::format("[{}] tensors live on different devices: {} on {}, {} on {}; move one with to()",
                               op.name, a.shape.str(), a.device->id(), b.shape.str(), b.device->id()));
}

NodePtr new_node(DeviceContext& device, const OpDef& op, const Shape& shape, DType dtype) {
  auto node = std::allocate_shared<Node>(RecycledAllocator<Node>());
  node->op = &op;
  node->shape = shape;
  node->dtype = dtype;
  node->device = &device;
  node->where = current_line();
  node->keep = RecomputeScope::mark();
  return node;
}

[[noreturn]] void refuse_assign(AxisMask extra, const Node& target, const Node& value) {
  throw AxisError(fmt::format(
      "[assign] the value{} varies along {}, the {} parameter that it is assigned to does not: psum or pmean it",
      value.where.known() ? " of " + value.where.str() : "", MeshScope::required("assign").names(extra),
      target.shape.str()));
}

// What is spread over more elements passes before: its gradient is summed over those, then over the ranks.
NodePtr varied(const NodePtr& x, AxisMask along) {
  if (x->op == &ops::expand_op && !x->has_value() && x->inputs[0]->tracks)
    return make_node(ops::expand_op, {varied(x->inputs[0], along)}, x->attrs, x->shape, x->dtype);
  return make_node(ops::pvary_op, {x}, CollectiveAttrs(along).packed(), x->shape, x->dtype);
}

// What a collective gives when its operand varies along `all`.
AxisMask result_of(const OpDef& op, AxisMask axes, AxisMask all) {
  const bool reduces = &op == &ops::psum_op || &op == &ops::pmax_op || &op == &ops::pmin_op;
  return reduces ? all & ~axes : all | axes;
}

}  // namespace

Node::~Node() {
  // Inputs that only this node owns would be destroyed from here, each from the one before: a chain of a million
  // operations is a million stack frames. So they are taken over into a list and destroyed one by one.
  std::vector<NodePtr> orphans;
  const auto adopt = [&orphans](std::vector<NodePtr>& owned) {
    for (NodePtr& input : owned) {
      if (input && input.use_count() == 1 && !input->inputs.empty()) orphans.push_back(std::move(input));
    }
    owned.clear();
  };
  adopt(inputs);
  while (!orphans.empty()) {
    const NodePtr last = std::move(orphans.back());
    orphans.pop_back();
    adopt(last->inputs);
  }
}

NodePtr make_node(const OpDef& op, std::vector<NodePtr> inputs, Attrs attrs, const Shape& shape, DType dtype) {
  if (inputs.empty()) throw ValueError(fmt::format("[{}] a node without inputs needs a device", op.name));
  DeviceContext* device = inputs[0]->device;
  bool tracks = false;
  for (const NodePtr& input : inputs) {
    if (input->device != device) refuse_devices(op, *inputs[0], *input);
    tracks = tracks || input->tracks;
  }
  const AxisMask varying = unify_inputs(op, attrs, inputs);
  NodePtr node = new_node(*device, op, shape, dtype);
  node->attrs = std::move(attrs);
  node->inputs = std::move(inputs);
  node->varying = varying;
  // An assign starts a new life of its target: what it holds is a leaf for autograd (Tensor::assign marks it).
  node->tracks =
      tracks && recording_gradients && is_float(dtype) && &op != &ops::stop_gradient_op && &op != &ops::assign_op;
  note_pending(node);
  return node;
}

NodePtr make_node_on(DeviceContext& device, const OpDef& op, Attrs attrs, const Shape& shape, DType dtype) {
  NodePtr node = new_node(device, op, shape, dtype);
  node->attrs = std::move(attrs);
  if (&op == &ops::loop_arg_op && MeshScope::current() != nullptr) node->varying = varies_as_loop;
  note_pending(node);
  return node;
}

NodePtr make_leaf(StoragePtr storage, const View& view, DType dtype) {
  NodePtr node = new_node(storage->device(), ops::leaf_op, view.shape, dtype);
  node->storage = std::move(storage);
  node->view = view;
  return node;
}

NodePtr make_host_leaf(DeviceContext& device, const HostValue& value, const Shape& shape, DType dtype) {
  if (shape.numel() > 4 || (dtype != DType::f32 && dtype != DType::i32)) {
    throw ValueError(fmt::format("[leaf] a host value holds at most four f32 or i32 elements, not {} {}", shape.str(),
                                 name_of(dtype)));
  }
  NodePtr node = new_node(device, ops::leaf_op, shape, dtype);
  node->host = std::make_unique<HostValue>(value);
  node->view = View::dense(shape);
  return node;
}

AxisMask unify_inputs(const OpDef& op, const Attrs& attrs, std::vector<NodePtr>& inputs) {
  AxisMask all = 0;
  for (const NodePtr& input : inputs) all |= input->varying;
  if (all == 0 && op.kind != OpKind::collective) return 0;
  if (MeshScope::current() == nullptr) return 0;  // what an ended scope left behind is a value like any other
  if (&op == &ops::assign_op) {
    // A parameter that ranks share would be another one on each; a state of the program takes on the value's type.
    const AxisMask extra = inputs[1]->varying & ~inputs[0]->varying;
    if (extra != 0 && inputs[0]->tracks) refuse_assign(extra, *inputs[0], *inputs[1]);
    return all;
  }
  const AxisMask axes = op.kind == OpKind::collective ? CollectiveAttrs(attrs).axes : 0;
  AxisMask needed = all & ~varies_as_loop;
  if (communicates(op)) needed |= axes;
  for (NodePtr& input : inputs) {
    const AxisMask lacks = needed & ~input->varying;
    const bool fixed = (input->varying & varies_as_loop) == 0;  // a loop's inputs are made equal where it is made
    if (lacks != 0 && fixed && input->tracks && is_float(input->dtype) && grad_mode()) input = varied(input, lacks);
  }
  return op.kind == OpKind::collective ? result_of(op, axes, all | (communicates(op) ? axes : 0)) : all;
}

std::string describe(const Node& node) {
  std::string text = fmt::format("{} {} {}", node.op->name, node.shape.str(), name_of(node.dtype));
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Node& input = *node.inputs[i];
    text += fmt::format("{}{} {} {}", i == 0 ? " <- " : ", ", input.op->name, input.shape.str(), name_of(input.dtype));
  }
  if (const std::string place = node.where.str(); !place.empty()) text += fmt::format(" (at {})", place);
  return text;
}

bool grad_mode() { return recording_gradients; }
void set_grad_mode(bool on) { recording_gradients = on; }

}  // namespace heddle
