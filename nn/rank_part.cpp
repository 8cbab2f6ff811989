#include "heddle/nn/rank_part.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/distributed/collectives.h"

namespace heddle::nn {

Tensor rank_part(const char* who, const Tensor& whole, int axis, const distributed::AxisNames& axes) {
  const MeshScope& scope = MeshScope::required(who);
  const AxisMask along = scope.mask(axes.list(), who);
  const int64_t n = scope.size(along), place = scope.place(along), size = whole.dim(axis) / n;
  if (whole.dim(axis) % n != 0) {
    throw ShapeError(fmt::format("[{}] the {} ranks along {} do not divide axis {} of {}", who, n, scope.names(along),
                                 axis, whole.shape().str()));
  }
  const Tensor part = slice(whole.detach(), axis, {place * size, (place + 1) * size, 1});
  return Tensor::from_bytes(part.to_bytes().data(), static_cast<size_t>(part.numel()), part.dtype(), part.shape(),
                            &whole.device());
}

const Tensor& typed_part(const Tensor& parameter, const distributed::AxisNames& axes) {
  if (!distributed::varies(parameter, axes)) distributed::set_varying(parameter, axes);
  return parameter;
}

}  // namespace heddle::nn
