// References of linear algebra, in double precision: the unblocked algorithms of the textbooks (Golub and Van Loan,
// "Matrix computations").
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle::reference {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Matrix `number` of an array whose last two axes are rows and columns.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, double* data) : rows_(rows), columns_(columns), data_(data) {}
  double& operator()(int64_t i, int64_t j) const { return data_[i * columns_ + j]; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

 private:
  int64_t rows_, columns_;
  double* data_;
};

Matrix matrix_of(HostArray& x, int64_t number) {
  const int64_t m = x.shape.dim(-2), n = x.shape.dim(-1);
  return {m, n, x.floats.data() + number * m * n};
}

// The elements of pack `number`.
double* pack_of(HostArray& x, int64_t number) { return x.floats.data() + number * x.shape.dim(-1); }

HostArray cholesky(const Node& node, Inputs in) {
  HostArray a = *in[0], out = blank(node.shape, node.dtype);
  const int64_t n = a.shape.dim(-1);
  for (int64_t b = 0; b < linalg::batch_count(a.shape); ++b) {
    const Matrix x = matrix_of(a, b), l(n, n, pack_of(out, b));
    double& info = pack_of(out, b)[n * n];
    for (int64_t j = 0; j < n; ++j) {
      double d = x(j, j);
      for (int64_t k = 0; k < j; ++k) d -= l(j, k) * l(j, k);
      if (!(d > 0) && info == 0) info = static_cast<double>(j + 1);
      l(j, j) = d > 0 ? std::sqrt(d) : nan;
      for (int64_t i = j + 1; i < n; ++i) {
        double v = x(i, j);
        for (int64_t k = 0; k < j; ++k) v -= l(i, k) * l(j, k);
        l(i, j) = v / l(j, j);
      }
    }
  }
  return out;
}

HostArray lu(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const Shape& shape = in[0]->shape;
  const int64_t m = shape.dim(-2), n = shape.dim(-1);
  for (int64_t b = 0; b < linalg::batch_count(shape); ++b) {
    double* pack = pack_of(out, b);
    const Matrix x(m, n, pack);
    std::copy_n(in[0]->floats.data() + b * m * n, m * n, pack);
    double *order = pack + m * n, &sign = order[m], &info = order[m + 1];
    for (int64_t i = 0; i < m; ++i) order[i] = static_cast<double>(i);
    sign = 1;
    for (int64_t k = 0; k < std::min(m, n); ++k) {
      int64_t pivot = k;
      for (int64_t i = k + 1; i < m; ++i) {
        if (std::abs(x(i, k)) > std::abs(x(pivot, k)) || (std::isnan(x(i, k)) && !std::isnan(x(pivot, k)))) pivot = i;
      }
      if (pivot != k) {
        sign = -sign;
        std::swap(order[k], order[pivot]);
        for (int64_t j = 0; j < n; ++j) std::swap(x(k, j), x(pivot, j));
      }
      if (x(k, k) == 0 && info == 0) info = static_cast<double>(k + 1);
      for (int64_t i = k + 1; i < m; ++i) {
        x(i, k) = x(k, k) == 0 ? 0 : x(i, k) / x(k, k);
        for (int64_t j = k + 1; j < n; ++j) x(i, j) -= x(i, k) * x(k, j);
      }
    }
  }
  return out;
}

// In place of b.
void substitute(const Matrix& t, const Matrix& b, bool upper, bool transposed, bool unit) {
  const int64_t n = b.rows();
  const auto element = [&](int64_t i, int64_t j) { return transposed ? t(j, i) : t(i, j); };
  for (int64_t s = 0; s < n; ++s) {
    const bool forward = upper == transposed;
    const int64_t i = forward ? s : n - 1 - s;
    for (int64_t c = 0; c < b.columns(); ++c) {
      double v = b(i, c);
      for (int64_t j = forward ? 0 : i + 1; j < (forward ? i : n); ++j) v -= element(i, j) * b(j, c);
      b(i, c) = unit ? v : v / element(i, i);
    }
  }
}

HostArray solve_triangular(const Node& node, Inputs in) {
  HostArray t = *in[0], out = *in[1];
  const TriangularAttrs attrs(node.attrs);
  for (int64_t b = 0; b < linalg::batch_count(t.shape); ++b)
    substitute(matrix_of(t, b), matrix_of(out, b), attrs.upper, attrs.transposed, attrs.unit);
  return out;
}

HostArray linear_solve(const Node& node, Inputs in) {
  HostArray pack = *in[1], out = *in[2];
  const int64_t n = out.shape.dim(-2), k = out.shape.dim(-1);
  const bool transposed = node.attrs.ints[0] != 0;
  for (int64_t b = 0; b < linalg::batch_count(out.shape); ++b) {
    const Matrix factors(n, n, pack_of(pack, b)), x = matrix_of(out, b);
    const double* order = pack_of(pack, b) + n * n;
    std::vector<double> moved(static_cast<size_t>(n * k));
    if (transposed) {
      substitute(factors, x, true, true, false);
      substitute(factors, x, false, true, true);
    }
    for (int64_t i = 0; i < n; ++i) {
      const auto row = static_cast<int64_t>(order[i]);
      for (int64_t c = 0; c < k; ++c)
        moved[static_cast<size_t>((transposed ? row : i) * k + c)] = x(transposed ? i : row, c);
    }
    for (int64_t i = 0; i < n * k; ++i) x(i / k, i % k) = moved[static_cast<size_t>(i)];
    if (!transposed) {
      substitute(factors, x, false, false, true);
      substitute(factors, x, true, false, false);
    }
  }
  return out;
}

HostArray det(const Node& node, Inputs in) {
  HostArray pack = *in[1], out = blank(node.shape, node.dtype);
  const int64_t n = in[0]->shape.dim(-1);
  for (int64_t b = 0; b < node.shape.numel(); ++b) {
    const double* p = pack_of(pack, b);
    double value = p[n * n + n];
    for (int64_t i = 0; i < n; ++i) value *= p[i * n + i];
    out.floats[static_cast<size_t>(b)] = value;
  }
  return out;
}

HostArray join_blocks(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const int64_t right = node.attrs.ints[0], below = node.attrs.ints[1], height = in[0]->shape[1],
                width = in[0]->shape[2];
  for (int64_t b = 0; b < node.shape[0]; ++b) {
    const Matrix x = matrix_of(out, b);
    size_t next = 0;
    const auto put = [&](int64_t row, int64_t column) {
      HostArray block = *in[next++];
      const Matrix from = matrix_of(block, b);
      for (int64_t i = 0; i < from.rows(); ++i) {
        for (int64_t j = 0; j < from.columns(); ++j) x(row + i, column + j) = from(i, j);
      }
    };
    put(0, 0);
    if (right == 1) put(0, width);
    if (below != 0) put(height, 0);
    if (below != 0 && right != 0) put(height, width);
  }
  return out;
}

}  // namespace

HostArray linear_algebra(const Node& node, Inputs in) {
  if (node.op == &ops::cholesky_op || node.op == &linalg::cholesky_block_op) return cholesky(node, in);
  if (node.op == &ops::lu_op || node.op == &linalg::lu_panel_op) return lu(node, in);
  if (node.op == &ops::solve_triangular_op || node.op == &linalg::triangular_block_op)
    return solve_triangular(node, in);
  if (node.op == &linalg::join_blocks_op) return join_blocks(node, in);
  if (node.op == &ops::linear_solve_op) return linear_solve(node, in);
  return node.op == &ops::det_op ? det(node, in) : spectral(node, in);
}

}  // namespace heddle::reference
