#include "heddle/core/ir/copy_rows_vertex.h"

#include "heddle/core/op/attrs.h"

namespace heddle {

std::optional<View> copied_rows(const View& view, int axis) {
  int64_t first = 1, second = 1, inner = 1;
  for (int d = 0; d < axis; ++d) second *= view.shape[d];
  for (int d = axis + 1; d < view.shape.rank(); ++d) inner *= view.shape[d];
  for (int cut = 0; cut <= axis; ++cut) {
    const std::optional<View> rows = view.reshape({first, second, view.shape[axis], inner});
    if (rows && (inner == 1 || rows->strides[3] == 1)) return rows;
    if (cut == axis) break;
    first *= view.shape[cut];
    second /= view.shape[cut];
  }
  return std::nullopt;
}

bool copy_rows_takes(const Node& node) { return node.inputs[1]->shape[0] <= 16 && node.inputs[2]->shape.numel() > 0; }

bool copy_rows_accepts(const IrNode& node, size_t input, const View& view) {
  return input == 2 ? copied_rows(view, axis_of(node.attrs)).has_value() : view.is_dense();
}

}  // namespace heddle
