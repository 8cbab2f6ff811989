#include "heddle/core/graph/checkpoint.h"

#include "heddle/core/graph/node.h"

namespace heddle {
void detail::keep(const Tensor& result) {
  if (result.defined() && !RecomputeScope::active() && result.node()->keep == Keep::inside)
    result.node()->keep = Keep::result;
}

Tensor offload(const Tensor& x) {
  const bool may = x.node()->keep == Keep::plain || x.node()->keep == Keep::result;
  if (may && !x.node()->has_value()) x.node()->keep = Keep::offload;
  return x;
}

}  // namespace heddle
