#include "core/graph/checkpoint.h"

namespace heddle {
namespace {

thread_local int depth = 0;

}  // namespace

RecomputeScope::RecomputeScope() { ++depth; }
RecomputeScope::~RecomputeScope() { --depth; }
bool RecomputeScope::active() { return depth > 0; }

RecomputePause::RecomputePause() : before_(depth) { depth = 0; }
void RecomputePause::end() {
  if (before_ >= 0) depth = before_;
  before_ = -1;
}

void detail::keep(const Tensor& result) {
  if (result.defined() && depth == 0 && result.node()->keep == Keep::inside) result.node()->keep = Keep::result;
}

}  // namespace heddle
