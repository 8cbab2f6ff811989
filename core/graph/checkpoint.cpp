#include "core/graph/checkpoint.h"

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

void detail::keep(const Tensor& result) {
  if (result.defined() && depth == 0 && result.node()->keep == Keep::inside) result.node()->keep = Keep::result;
}

Tensor offload(const Tensor& x) {
  if (x.node()->keep == Keep::plain && !x.node()->has_value()) x.node()->keep = Keep::offload;
  return x;
}

}  // namespace heddle
