// Products of vectors and matrices by name, and distances: compositions of matmul() and elementwise functions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/linalg/build_matmul.h"
#include "heddle/core/functions/linalg/einsum.h"
#include "heddle/core/functions/linalg/linalg.h"
#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/shape.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/composite.h"

namespace heddle {
namespace {

using build::as_float;
using build::widen;

void check_ranks(const char* op, const Tensor& a, const Tensor& b, int rank_a, int rank_b, const char* form) {
  build::check_device(a, b, op);
  if (a.rank() == rank_a && b.rank() == rank_b) return;
  throw ShapeError(
      fmt::format("[{}] takes {}; got {} and {}; matmul() takes any", op, form, a.shape().str(), b.shape().str()));
}

// Ranks as named, and the inner dimension.
Tensor multiplied(const char* op, const Tensor& a, const Tensor& b, int rank_a, int rank_b, const char* form) {
  check_ranks(op, a, b, rank_a, rank_b, form);
  const bool batched = rank_a == 3 && a.dim(0) != b.dim(0);
  if (batched || a.dim(-1) != b.dim(rank_b == 1 ? 0 : -2))
    throw ShapeError(fmt::format("[{}] takes {}; got {} and {}", op, form, a.shape().str(), b.shape().str()));
  return matmul(a, b);
}

Tensor scaled_sum(const char* op, const Tensor& x, const Tensor& product, double beta, double alpha) {
  if (!build::broadcasts_to(x.shape(), product.shape())) {
    throw ShapeError(
        fmt::format("[{}] x broadcasts to the product; got {} for {}", op, x.shape().str(), product.shape().str()));
  }
  const bool half = is_half(product.dtype()) && is_half(promote(x.dtype(), product.dtype()));
  const auto wide = [&](const Tensor& t) {
    return half ? build::widen(t) : t;
  };  // f16 and bf16 are rounded once, at the end
  const Tensor sums = wide(half ? build::part_of_sum(product) : product), scaled = alpha == 1 ? sums : sums * alpha;
  const Tensor total = beta == 0 ? scaled : (beta == 1 ? wide(x) : wide(x) * beta) + scaled;
  return half ? cast(total, promote(x.dtype(), product.dtype())) : total;
}

// (...), the p-norm along an axis of an f32 or f64 tensor; its gradient at 0 is 0.
Tensor length(const char* op, const Tensor& x, double p, int axis, bool keepdim) {
  if (!(p > 0)) throw ValueError(fmt::format("[{}] the norm's p is positive, or infinity; got {}", op, p));
  if (x.dim(axis) == 0) return sum(x, {axis}, keepdim);
  if (std::isinf(p)) return max(abs(x), {axis}, keepdim);
  if (p == 1) return sum(abs(x), {axis}, keepdim);
  const Tensor total = sum(p == 2 ? square(x) : pow(abs(x), p), {axis}, keepdim), some = ne(total, 0);  // NaN is some
  const Tensor safe = where(some, total, 1);
  return where(some, p == 2 ? sqrt(safe) : pow(safe, 1 / p), 0);
}

struct Wide {
  Tensor a, b;
  DType t;  // of the result
};
Wide wide_pair(const char* op, const Tensor& a, const Tensor& b) {
  build::check_device(a, b, op);
  const DType t = build::float_dtype(promote(a.dtype(), b.dtype()), Autocast::f32);
  return {widen(cast(a, t)), widen(cast(b, t)), t};
}

void check_bias(const char* op, const Tensor& bias, int64_t out) {
  if (!bias.defined() || (bias.rank() == 1 && bias.dim(0) == out) || (bias.rank() == 0 && out == 1)) return;
  throw ShapeError(
      fmt::format("[{}] the bias has one element for each of {} outputs; got {}", op, out, bias.shape().str()));
}

// cut[i][j]: where the product of matrices i to j is split for the least work.
std::vector<std::vector<size_t>> best_cuts(const std::vector<double>& sizes) {
  const size_t n = sizes.size() - 1;
  std::vector<std::vector<double>> work(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> cut(n, std::vector<size_t>(n, 0));
  for (size_t span = 1; span < n; ++span) {
    for (size_t i = 0; i + span < n; ++i) {
      const size_t j = i + span;
      work[i][j] = std::numeric_limits<double>::infinity();
      for (size_t k = i; k < j; ++k) {
        const double cost = work[i][k] + work[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
        if (cost < work[i][j]) {
          work[i][j] = cost;
          cut[i][j] = k;
        }
      }
    }
  }
  return cut;
}

Tensor chain(const std::vector<Tensor>& matrices, const std::vector<std::vector<size_t>>& cut, size_t i, size_t j) {
  if (i == j) return matrices[i];
  return matmul(chain(matrices, cut, i, cut[i][j]), chain(matrices, cut, cut[i][j] + 1, j));
}

}  // namespace

Tensor outer(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  check_ranks("outer", a.tensor, b, 1, 1, "two vectors");
  return unsqueeze(a.tensor, 1) * unsqueeze(b, 0);
}
Tensor inner(TensorArg argument, const Tensor& b) {
  const CallerScope scope(argument.caller);
  const Tensor& a = argument.tensor;
  build::check_device(a, b, "inner");
  if (a.rank() == 0 || b.rank() == 0) return a * b;
  if (a.dim(-1) != b.dim(-1))
    throw ShapeError(
        fmt::format("[inner] the last axes have one size; got {} and {}", a.shape().str(), b.shape().str()));
  return tensordot(a, b, {-1}, {-1});
}
Tensor dot(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  return multiplied("dot", a.tensor, b, 1, 1, "(n) and (n)");
}
Tensor vdot(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  return multiplied("vdot", a.tensor, b, 1, 1, "(n) and (n)");
}
Tensor mv(TensorArg a, const Tensor& x) {
  const CallerScope scope(a.caller);
  return multiplied("mv", a.tensor, x, 2, 1, "(n, m) and (m)");
}
Tensor mm(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  return multiplied("mm", a.tensor, b, 2, 2, "(n, k) and (k, m)");
}
Tensor bmm(TensorArg a, const Tensor& b) {
  const CallerScope scope(a.caller);
  return multiplied("bmm", a.tensor, b, 3, 3, "(B, n, k) and (B, k, m)");
}
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha, Caller caller) {
  const CallerScope scope(caller);
  return scaled_sum("addmv", x, multiplied("addmv", a, b, 2, 1, "(n, m) and (m)"), beta, alpha);
}
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha, Caller caller) {
  const CallerScope scope(caller);
  return scaled_sum("addmm", x, multiplied("addmm", a, b, 2, 2, "(n, k) and (k, m)"), beta, alpha);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha, Caller caller) {
  const CallerScope scope(caller);
  return scaled_sum("baddbmm", x, multiplied("baddbmm", a, b, 3, 3, "(B, n, k) and (B, k, m)"), beta, alpha);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(x, weight, "linear");
  if (x.rank() == 0 || weight.rank() == 0 || weight.rank() > 2 || x.dim(-1) != weight.dim(-1)) {
    throw ShapeError(fmt::format("[linear] x is (..., in) and the weight (out, in) or (in); got {} and {}",
                                 x.shape().str(), weight.shape().str()));
  }
  check_bias("linear", bias, weight.rank() == 2 ? weight.dim(0) : 1);
  const Tensor product = matmul(x, weight.rank() == 2 ? transpose(weight) : weight);
  if (!bias.defined()) return product;
  const Tensor result = build::add_bias(product, weight.rank() == 2 ? bias : reshape(bias, Shape{}));
  note_composite("linear", result, {&x, &weight, &bias});
  return result;
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(a, weight, "bilinear");
  build::check_device(b, weight, "bilinear");
  bool fits = weight.rank() == 3 && a.rank() >= 1 && a.rank() == b.rank() && a.dim(-1) == weight.dim(1) &&
              b.dim(-1) == weight.dim(2);
  for (int i = 0; fits && i < a.rank() - 1; ++i) fits = a.dim(i) == b.dim(i);
  if (!fits) {
    throw ShapeError(fmt::format(
        "[bilinear] a is (..., n), b (..., m) with the same leading axes, the weight (out, n, m); got {}, {} and {}",
        a.shape().str(), b.shape().str(), weight.shape().str()));
  }
  check_bias("bilinear", bias, weight.dim(0));
  const int64_t n = build::product(a.shape(), 0, a.rank() - 1);
  DType t = promote(promote(a.dtype(), b.dtype()), weight.dtype());
  if (t == DType::boolean) t = DType::i32;
  const AutocastScope wide = AutocastScope::off();
  const Tensor half = tensordot(reshape(widen(a), Shape{n, a.dim(-1)}), widen(weight), {1},
                                {1});  // (n, out, m), not rounded to half precision
  const Tensor product = squeeze(matmul(half, reshape(widen(b), Shape{n, b.dim(-1), 1})), 2);  // (n, out)
  const Tensor result = cast(reshape(product, a.shape().with(a.rank() - 1, weight.dim(0))), t);
  return bias.defined() ? result + bias : result;
}

Tensor kron(TensorArg argument, const Tensor& b) {
  const CallerScope scope(argument.caller);
  const Tensor& a = argument.tensor;
  build::check_device(a, b, "kron");
  const int rank = std::max(a.rank(), b.rank());
  build::check_dims("kron", 2 * rank);
  Shape left, right, result;
  for (int i = -rank; i < 0; ++i) {
    const int64_t m = i >= -a.rank() ? a.dim(i) : 1, n = i >= -b.rank() ? b.dim(i) : 1;
    left.push_back(m);
    left.push_back(1);
    right.push_back(1);
    right.push_back(n);
    result.push_back(m * n);
  }
  return reshape(reshape(a, left) * reshape(b, right), result);
}

// c_i = a_(i+1) b_(i+2) - a_(i+2) b_(i+1), indices modulo 3.
Tensor cross(const Tensor& a, const Tensor& b, int axis, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(a, b, "cross");
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "cross");
  build::check_rank("cross", a.rank() > b.rank() ? a : b, 1);
  const int at = normalize_axis(axis, shape.rank(), "cross");
  const Tensor x = build::broadcast(a, shape), y = build::broadcast(b, shape);
  if (shape[at] != 3) throw ShapeError(fmt::format("[cross] the axis has size 3; got axis {} of {}", at, shape.str()));
  return roll(x, -1, at) * roll(y, 1, at) - roll(x, 1, at) * roll(y, -1, at);
}

Tensor matrix_power(const Tensor& x, int64_t n, Caller caller) {
  const CallerScope scope(caller);
  if (x.rank() < 2 || x.dim(-1) != x.dim(-2))
    throw ShapeError(fmt::format("[matrix_power] takes square matrices; got {}", x.shape().str()));
  if (n < 0) {
    if (n == std::numeric_limits<int64_t>::min())
      throw ValueError(fmt::format("[matrix_power] the power is out of range; got {}", n));
    return matrix_power(inverse(x), -n);
  }
  if (n == 0) return expand(eye(x.dim(-1), -1, x.dtype(), &x.device()), x.shape());
  Tensor result, square = x;
  for (; n > 0; n /= 2) {
    if (n % 2 != 0) result = result.defined() ? build::plain_matmul(result, square) : square;
    if (n > 1) square = build::plain_matmul(square, square);
  }
  return result;
}

Tensor multi_dot(std::span<const Tensor> matrices, Caller caller) {
  const CallerScope scope(caller);
  if (matrices.size() < 2)
    throw ValueError(fmt::format("[multi_dot] multiplies at least two matrices; got {}{}", matrices.size(),
                                 matrices.empty() ? "" : ", " + matrices[0].shape().str()));
  std::vector<Tensor> in(matrices.begin(), matrices.end());
  const bool row = in.front().rank() == 1, column = in.back().rank() == 1;
  if (row) in.front() = unsqueeze(in.front(), 0);
  if (column) in.back() = unsqueeze(in.back(), 1);
  std::vector<double> sizes;
  for (size_t i = 0; i < in.size(); ++i) {
    build::check_device(in[0], in[i], "multi_dot");
    if (in[i].rank() != 2 || (i > 0 && in[i].dim(0) != in[i - 1].dim(1))) {
      throw ShapeError(fmt::format(
          "[multi_dot] takes matrices whose inner dimensions fit, and vectors at the ends; got {} for operand {}{}",
          matrices[i].shape().str(), i, i > 0 ? " after " + matrices[i - 1].shape().str() : ""));
    }
    sizes.push_back(static_cast<double>(in[i].dim(0)));
  }
  sizes.push_back(static_cast<double>(in.back().dim(1)));
  Tensor result = chain(in, best_cuts(sizes), 0, in.size() - 1);
  if (column) result = squeeze(result, 1);
  return row ? squeeze(result, 0) : result;
}

Tensor cdist(const Tensor& a, const Tensor& b, double p, Caller caller) {
  const CallerScope scope(caller);
  const Wide in = wide_pair("cdist", a, b);
  if (a.rank() < 2 || b.rank() < 2 || a.dim(-1) != b.dim(-1)) {
    throw ShapeError(
        fmt::format("[cdist] takes (..., m, d) and (..., n, d); got {} and {}", a.shape().str(), b.shape().str()));
  }
  build::check_dims("cdist", std::max(a.rank(), b.rank()) + 1);
  const Tensor apart = unsqueeze(in.a, -2) - unsqueeze(in.b, -3);  // (..., m, n, d)
  return cast(length("cdist", apart, p, apart.rank() - 1, false), in.t);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double epsilon, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  const Wide in = wide_pair("pairwise_distance", a, b);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "pairwise_distance");
  build::check_rank("pairwise_distance", a.rank() > b.rank() ? a : b, 1);
  return cast(length("pairwise_distance", in.a - in.b + epsilon, p, shape.rank() - 1, keepdim), in.t);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis, double epsilon, Caller caller) {
  const CallerScope scope(caller);
  const Wide in = wide_pair("cosine_similarity", a, b);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "cosine_similarity");
  build::check_rank("cosine_similarity", a.rank() > b.rank() ? a : b, 1);
  const int at = normalize_axis(axis, shape.rank(), "cosine_similarity");
  const Tensor x = build::broadcast(in.a, shape), y = build::broadcast(in.b, shape);
  const Tensor sizes = maximum(length("cosine_similarity", x, 2, at, false), epsilon) *
                       maximum(length("cosine_similarity", y, 2, at, false), epsilon);
  return cast(sum(x * y, {at}) / sizes, in.t);
}

Tensor normalize(const Tensor& x, double p, int axis, double epsilon, Caller caller) {
  const CallerScope scope(caller);
  const Tensor in = as_float(x), wide = widen(in);
  const int at = build::axis_of("normalize", x, axis);
  return cast(wide / maximum(length("normalize", wide, p, at, true), epsilon), in.dtype());
}

}  // namespace heddle
