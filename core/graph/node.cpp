#include "heddle/core/graph/node.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/recycled.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/recompute_scope.h"
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
  NodePtr node = new_node(*device, op, shape, dtype);
  node->attrs = std::move(attrs);
  node->inputs = std::move(inputs);
  // An assign starts a new life of its target: what it holds is a leaf for autograd (Tensor::assign marks it).
  node->tracks =
      tracks && recording_gradients && is_float(dtype) && &op != &ops::stop_gradient_op && &op != &ops::assign_op;
  note_pending(node);
  return node;
}

NodePtr make_node_on(DeviceContext& device, const OpDef& op, Attrs attrs, const Shape& shape, DType dtype) {
  NodePtr node = new_node(device, op, shape, dtype);
  node->attrs = std::move(attrs);
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
