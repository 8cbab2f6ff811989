#include "heddle/core/graph/recompute_scope.h"

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

}  // namespace heddle
