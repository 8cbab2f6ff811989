// Reductions, indexing, matrix products and fused rows of the reference.
#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/core/graph/custom.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle::reference {
namespace {

// Whether candidate takes the place of best: strictly better (so the first of equals stays), or the first NaN.
bool beats(double candidate, double best, bool largest) {
  if (std::isnan(best)) return false;
  if (std::isnan(candidate)) return true;
  return largest ? candidate > best : candidate < best;
}
bool beats(int64_t candidate, int64_t best, bool largest) { return largest ? candidate > best : candidate < best; }

// For every input element, which output element it belongs to.
template <class F>
void for_each_target(const Shape& shape, const std::vector<int64_t>& axes, F&& f) {
  std::array<int64_t, Shape::max_rank> stride{};
  int64_t next = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (std::find(axes.begin(), axes.end(), i) != axes.end()) continue;
    stride[static_cast<size_t>(i)] = next;
    next *= shape[i];
  }
  std::array<int64_t, Shape::max_rank> position{};
  int64_t target = 0;
  const int64_t count = shape.numel();
  for (int64_t n = 0; n < count; ++n) {
    f(static_cast<size_t>(n), static_cast<size_t>(target));
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      target += stride[a];
      if (++position[a] < shape[axis]) break;
      target -= stride[a] * shape[axis];
      position[a] = 0;
    }
  }
}

// sum, prod: fold every element into its target.
template <class T, class F>
void accumulate(const Node& node, const Shape& shape, const std::vector<T>& x, std::vector<T>& out, T start,
                F&& combine) {
  std::fill(out.begin(), out.end(), start);
  for_each_target(shape, axes_of(node.attrs),
                  [&](size_t n, size_t target) { out[target] = combine(out[target], x[n]); });
}

// max, min: the first element starts, so that no start value has to be invented.
template <class T>
void extremum(const Node& node, const Shape& shape, const std::vector<T>& x, std::vector<T>& out) {
  const bool largest = node.op == &ops::max_op;
  std::vector<bool> seen(out.size());
  for_each_target(shape, axes_of(node.attrs), [&](size_t n, size_t target) {
    if (!seen[target] || beats(x[n], out[target], largest)) out[target] = x[n];
    seen[target] = true;
  });
}

template <class T>
void index_of(const Node& node, const Shape& shape, const std::vector<T>& x, std::vector<int64_t>& out) {
  const bool largest = node.op == &ops::argmax_op;
  const Rows rows(shape, axis_of(node.attrs));
  for (int64_t o = 0; o < rows.outer; ++o) {
    for (int64_t i = 0; i < rows.inner; ++i) {
      int64_t best = 0;
      for (int64_t k = 1; k < rows.size; ++k) {
        if (beats(x[rows.at(o, k, i)], x[rows.at(o, best, i)], largest)) best = k;
      }
      out[static_cast<size_t>(o * rows.inner + i)] = best;
    }
  }
}

// Negative indices count from the end once; what is still outside goes to the nearest end.
int64_t clamped(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return std::clamp<int64_t>(index, 0, size - 1);
}

void copy_element(HostArray& out, size_t to, const HostArray& x, size_t from) {
  if (is_float(out.dtype)) {
    out.floats[to] = x.floats[from];
  } else {
    out.ints[to] = x.ints[from];
  }
}

HostArray take(const Node& node, const HostArray& x, const HostArray& indices) {
  HostArray out = blank(node.shape, node.dtype);
  const Rows rows(x.shape, axis_of(node.attrs));
  size_t to = 0;
  for (int64_t o = 0; o < rows.outer; ++o) {
    for (const int64_t index : indices.ints) {
      for (int64_t i = 0; i < rows.inner; ++i) copy_element(out, to++, x, rows.at(o, clamped(index, rows.size), i));
    }
  }
  return out;
}

HostArray gather(const Node& node, const HostArray& x, const HostArray& indices) {
  HostArray out = blank(node.shape, node.dtype);
  const int axis = axis_of(node.attrs);
  const auto strides = row_major_strides(x.shape);
  const auto own = row_major_strides(indices.shape);
  for (size_t n = 0; n < indices.ints.size(); ++n) {
    int64_t from = 0;
    for (int d = 0; d < x.shape.rank(); ++d) {
      const auto a = static_cast<size_t>(d);
      const int64_t position = static_cast<int64_t>(n) / own[a] % indices.shape[d];
      from += strides[a] * (d == axis ? clamped(indices.ints[n], x.shape[axis]) : position);
    }
    copy_element(out, n, x, static_cast<size_t>(from));
  }
  return out;
}

// c[m][n] += a[m][k] * b[k][n]
template <class T, class F>
void multiply(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, F&& fused_add) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const T factor = a[i * k + j];
      for (int64_t column = 0; column < n; ++column)
        c[i * n + column] = fused_add(c[i * n + column], factor, b[j * n + column]);
    }
  }
}

// log(sum(exp(x))) of one row as a sum: its largest unless that is infinite, and the logarithm of the rest, which
// beside a huge one would be lost.
struct LogSumExp {
  double shift = 0, rest = 0;
  double sum() const { return shift + rest; }
  // x less the whole. A row that holds +inf has no softmax: infinity beside infinity. All of it is NaN, as in PyTorch.
  double below(double x) const {
    return rest == std::numeric_limits<double>::infinity() ? std::nan("") : (x - shift) - rest;
  }
};
template <class F>
LogSumExp log_sum_exp(int64_t size, F&& x) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t k = 0; k < size; ++k) {
    if (beats(x(k), largest, true)) largest = x(k);
  }
  if (std::isnan(largest)) return {largest, 0};
  const double shift = std::isinf(largest) ? 0 : largest;
  double total = 0;
  for (int64_t k = 0; k < size; ++k) total += std::exp(x(k) - shift);
  return {shift, std::log(total)};
}

HostArray softmax_rows(const Node& node, const HostArray& x) {
  HostArray out = blank(node.shape, node.dtype);
  const Rows rows(x.shape, axis_of(node.attrs));
  for (int64_t o = 0; o < rows.outer; ++o) {
    for (int64_t i = 0; i < rows.inner; ++i) {
      const LogSumExp total = log_sum_exp(rows.size, [&](int64_t k) { return x.floats[rows.at(o, k, i)]; });
      if (node.op == &ops::logsumexp_op) {
        out.floats[static_cast<size_t>(o * rows.inner + i)] = total.sum();
        continue;
      }
      for (int64_t k = 0; k < rows.size; ++k) {
        const double shifted = total.below(x.floats[rows.at(o, k, i)]);
        out.floats[rows.at(o, k, i)] = node.op == &ops::softmax_op ? std::exp(shifted) : shifted;
      }
    }
  }
  return out;
}

HostArray cross_entropy(const Node& node, const HostArray& logits, const HostArray& targets) {
  HostArray out = blank(node.shape, node.dtype);
  const Rows rows(logits.shape, 1);
  for (int64_t n = 0; n < rows.outer; ++n) {
    const LogSumExp total = log_sum_exp(rows.size, [&](int64_t k) { return logits.floats[rows.at(n, k, 0)]; });
    const int64_t target = clamped(targets.ints[static_cast<size_t>(n)], rows.size);
    out.floats[static_cast<size_t>(n)] = 0 - total.below(logits.floats[rows.at(n, target, 0)]);
  }
  return out;
}

}  // namespace

HostArray reduce(const Node& node, Inputs in) {
  const HostArray& x = *in[0];
  HostArray out = blank(node.shape, node.dtype);
  const bool floats = is_float(x.dtype);
  if (node.op == &ops::argmax_op || node.op == &ops::argmin_op) {
    floats ? index_of(node, x.shape, x.floats, out.ints) : index_of(node, x.shape, x.ints, out.ints);
  } else if (node.op == &ops::max_op || node.op == &ops::min_op) {
    floats ? extremum(node, x.shape, x.floats, out.floats) : extremum(node, x.shape, x.ints, out.ints);
  } else if (floats) {
    const bool product = node.op == &ops::prod_op;
    accumulate(node, x.shape, x.floats, out.floats, product ? 1.0 : 0.0,
               [product](double a, double b) { return product ? a * b : a + b; });
  } else {
    const bool product = node.op == &ops::prod_op;
    accumulate(node, x.shape, x.ints, out.ints, int64_t{product},
               [product](int64_t a, int64_t b) { return product ? multiply_wrapping(a, b) : add_wrapping(a, b); });
    for (int64_t& v : out.ints) v = wrapped(v, node.dtype);
  }
  return out;
}

HostArray index(const Node& node, Inputs in) {
  if (node.op == &ops::take_op) return take(node, *in[0], *in[1]);
  return gather(node, *in[0], *in[1]);
}

HostArray matmul(const Node& node, Inputs in) {
  const HostArray &a = *in[0], &b = *in[1];
  HostArray out = blank(node.shape, node.dtype);
  const int rank = node.shape.rank();
  const int64_t m = node.shape[rank - 2], n = node.shape[rank - 1], k = a.shape[rank - 1];
  int64_t batches = 1;
  for (int i = 0; i < rank - 2; ++i) batches *= node.shape[i];
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t at_a = batch * m * k, at_b = batch * k * n, at_c = batch * m * n;
    if (is_float(node.dtype)) {
      multiply(a.floats.data() + at_a, b.floats.data() + at_b, out.floats.data() + at_c, m, n, k,
               [](double c, double x, double y) { return c + x * y; });
    } else {
      multiply(a.ints.data() + at_a, b.ints.data() + at_b, out.ints.data() + at_c, m, n, k,
               [](int64_t c, int64_t x, int64_t y) { return add_wrapping(c, multiply_wrapping(x, y)); });
    }
  }
  for (int64_t& v : out.ints) v = wrapped(v, node.dtype);
  return out;
}

HostArray fused(const Node& node, Inputs in) {
  if (node.op == &ops::custom_op) return *in[0];
  if (node.op == &ops::cross_entropy_op) return cross_entropy(node, *in[0], *in[1]);
  const bool rows = node.op == &ops::softmax_op || node.op == &ops::log_softmax_op || node.op == &ops::logsumexp_op;
  return rows ? softmax_rows(node, *in[0]) : linear_algebra(node, in);
}

}  // namespace heddle::reference
