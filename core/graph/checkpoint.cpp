#include "heddle/core/graph/checkpoint.h"

#include "heddle/core/graph/node.h"

namespace heddle {
namespace {

thread_local int depth = 0;
thread_local Keep outermost = Keep::plain;

}  // namespace

RecomputeScope::RecomputeScope(Keep mark) {
  if (depth++ == 0) outermost = mark;
}
RecomputeScope::~RecomputeScope() {
  if (--depth == 0) outermost = Keep::plain;
}
Keep RecomputeScope::mark() { return outermost; }

RecomputePause::RecomputePause() : before_(depth), mark_(outermost) {
  depth = 0;
  outermost = Keep::plain;
}
void RecomputePause::end() {
  if (before_ < 0) return;
  depth = before_;
  outermost = mark_;
  before_ = -1;
}

void detail::keep(const Tensor& result) {
  if (result.defined() && depth == 0 && result.node()->keep == Keep::inside) result.node()->keep = Keep::result;
}

Tensor offload(const Tensor& x) {
  if (x.node()->keep == Keep::plain && !x.node()->has_value()) x.node()->keep = Keep::offload;
  return x;
}

}  // namespace heddle
