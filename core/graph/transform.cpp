#include "heddle/core/graph/transform.h"

#include "heddle/core/graph/lender.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

thread_local int transforms = 0;
thread_local ExampleScope* inner_example = nullptr;

}  // namespace

TransformScope::TransformScope() { ++transforms; }
TransformScope::~TransformScope() { --transforms; }
bool TransformScope::active() { return transforms > 0; }

ExampleScope::ExampleScope() : outer_(inner_example) { inner_example = this; }
ExampleScope::~ExampleScope() { inner_example = outer_; }
bool ExampleScope::active() { return inner_example != nullptr; }

void ExampleScope::note_key(const NodePtr& key) {
  for (ExampleScope* scope = inner_example; scope != nullptr; scope = scope->outer_) scope->keys_.push_back(key);
}

NodePtr make_example(const Node& whole, const Shape& shape) {
  auto node = std::make_shared<Node>();
  node->op = &ops::leaf_op;
  node->shape = shape;
  node->dtype = whole.dtype;
  node->device = whole.device;
  node->varying = whole.varying;
  node->tracks = whole.tracks && grad_mode();
  node->where = current_line();
  return node;
}

bool is_example(const Node& node) {
  return node.op == &ops::leaf_op && !node.has_value() && !node.overwritten && !is_lent(node);
}

bool depends_on_example(const NodePtr& node) { return any_without_value(node, is_example); }

}  // namespace heddle
