#include "heddle/core/functions/nn/attention_rows.h"

#include <cmath>

#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/pick.h"

namespace heddle {
namespace {

int64_t rows_of_keys(const AttentionProblem& p) { return p.batch * p.keys * p.key_heads; }

// (B, N, J, size) from an element of the row on, as (B, J, N, size).
Tensor key_piece(const Tensor& packed, const AttentionProblem& p, int64_t first, int64_t size) {
  const Tensor x = slice(packed, 0, {first, first + rows_of_keys(p) * size});
  return permute(reshape(x, Shape{p.batch, p.keys, p.key_heads, size}), {0, 2, 1, 3});
}

}  // namespace

double attention_scale(const std::optional<double>& given, const Tensor& q) {
  return given.value_or(q.dim(3) == 0 ? 1.0 : 1 / std::sqrt(static_cast<double>(q.dim(3))));
}

Tensor attention_result(const Tensor& packed, const AttentionProblem& p) {
  return reshape(slice(packed, 0, {0, p.results()}), Shape{p.batch, p.queries, p.heads, p.value_size});
}

Tensor attention_logarithms(const Tensor& packed, const AttentionProblem& p) {
  return slice(packed, 0, {p.results(), p.results() + p.logarithms()});
}

Shape attention_key_gradient_shape(const AttentionProblem& p) {
  return Shape{rows_of_keys(p) * (p.size + p.value_size)};
}

Tensor attention_gradient_of_keys(const Tensor& packed, const AttentionProblem& p) {
  return key_piece(packed, p, 0, p.size);
}

Tensor attention_gradient_of_values(const Tensor& packed, const AttentionProblem& p) {
  return key_piece(packed, p, rows_of_keys(p) * p.size, p.value_size);
}

}  // namespace heddle
