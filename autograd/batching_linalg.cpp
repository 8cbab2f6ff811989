// Batching rules of linear algebra: the mapped axis is one more batch axis. A matrix that all examples share takes
// their right sides as more columns.
#include "heddle/autograd/batching.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/linalg_rows.h"

namespace heddle::autograd {
namespace {

Tensor one_more_axis(const BatchCall& call) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < call.in.size(); ++i) inputs.push_back(call.lifted(i));
  return call.record(inputs, call.attrs(), call.shape());
}

// The last input is (B, n, k), the result too; the others have no mapped axis.
Tensor more_columns(const BatchCall& call) {
  const size_t last = call.in.size() - 1;
  for (size_t i = 0; i < last; ++i) {
    if (call.mapped[i] || call.node.shape.rank() != 2) return one_more_axis(call);
  }
  const int64_t n = call.node.shape[0], k = call.node.shape[1];
  std::vector<Tensor> inputs = call.in;
  inputs[last] = reshape(permute(call.in[last], {1, 0, 2}), Shape{n, call.size * k});
  const Tensor solved = call.record(inputs, call.attrs(), Shape{n, call.size * k});
  return permute(reshape(solved, Shape{n, call.size, k}), {1, 0, 2});
}

}  // namespace

void add_linalg_batching(BatchTable& table) {
  for (const OpDef* op : {&ops::cholesky_op, &ops::lu_op, &ops::det_op, &ops::qr_op, &ops::eigh_op, &ops::svd_op})
    table[op].rule = one_more_axis;
  for (const OpDef* op : {&ops::solve_triangular_op, &ops::linear_solve_op}) table[op].rule = more_columns;
}

}  // namespace heddle::autograd
