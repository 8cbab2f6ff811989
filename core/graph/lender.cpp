#include "heddle/core/graph/lender.h"

#include "heddle/core/graph/node.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

thread_local Lender* lender_of_thread = nullptr;

}  // namespace

// The group is the leaf's one attribute; other leaves have none.
NodePtr make_lent_leaf(DeviceContext& device, const Shape& shape, DType dtype, size_t group) {
  auto node = std::make_shared<Node>();
  node->op = &ops::leaf_op;
  node->attrs.ints = {static_cast<int64_t>(group)};
  node->shape = shape;
  node->dtype = dtype;
  node->device = &device;
  node->view = View::dense(shape);
  node->where = current_line();
  return node;
}

bool is_lent(const Node& node) { return node.op == &ops::leaf_op && !node.attrs.ints.empty(); }

size_t group_of(const Node& lent) { return static_cast<size_t>(lent.attrs.ints.front()); }

LenderScope::LenderScope(Lender* lender) : outer_(lender_of_thread) {
  if (lender != nullptr) lender_of_thread = lender;
}

LenderScope::~LenderScope() { lender_of_thread = outer_; }

Lender* LenderScope::current() { return lender_of_thread; }

}  // namespace heddle
