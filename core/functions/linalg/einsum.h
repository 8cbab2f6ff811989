// Contractions in the forms of NumPy and PyTorch: Einstein sums, tensordot, products of vectors and matrices,
// distances.
//
// Purpose: all are matmul() of permuted and reshaped views, or broadcast products where nothing is summed; gradients of
// any order are those of the parts. Operands promote to one dtype, which is that of the result (bool: i32). Errors:
// ShapeError, DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

// Einstein summation, as torch.einsum: "bij,bjk->bik". Labels are letters; one that repeats in an operand takes its
// diagonal; "..." stands for any axes, which broadcast, as axes of size 1 do; without "->" the result has the ellipsis,
// then the labels seen once, A-Z and then a-z. Axes of an ellipsis that the result lacks are summed. More than two
// operands are contracted in pairs: each time the pair whose product adds the fewest elements.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands, Caller caller = Caller::current());
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands,
                     Caller caller = Caller::current()) {
  return einsum(equation, std::span<const Tensor>(operands.begin(), operands.size()), caller);
}
Tensor tensordot(const Tensor& a, const Tensor& b, int axes = 2,
                 Caller caller = Caller::current());  // the last axes of a with the first of b
Tensor tensordot(const Tensor& a, const Tensor& b, std::vector<int> axes_a, std::vector<int> axes_b,
                 Caller caller = Caller::current());

// ---- vectors and matrices. The ranks are as named: matmul() takes any.
Tensor outer(TensorArg a, const Tensor& b);  // (n), (m): (n, m)
Tensor inner(TensorArg a, const Tensor& b);  // over the last axes; of scalars their product
Tensor dot(TensorArg a, const Tensor& b);    // (n), (n)
Tensor vdot(TensorArg a, const Tensor& b);   // the same: there are no complex dtypes
Tensor mv(TensorArg a, const Tensor& x);     // (n, m), (m)
Tensor mm(TensorArg a, const Tensor& b);     // (n, k), (k, m)
Tensor bmm(TensorArg a, const Tensor& b);    // (B, n, k), (B, k, m)
// beta x + alpha a b; x broadcasts to the product; with beta 0 it is not read.
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
             Caller caller = Caller::current());
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
             Caller caller = Caller::current());
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1,
               Caller caller = Caller::current());
// x (..., in), weight (out, in) or (in), bias (out) or undefined: x weight^T + bias.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Caller caller = Caller::current());
// a (..., n), b (..., m), weight (out, n, m): sum of a weight[o] b, plus bias (out).
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {},
                Caller caller = Caller::current());
Tensor kron(TensorArg a, const Tensor& b);  // Kronecker product; ranks up to 4
Tensor cross(const Tensor& a, const Tensor& b, int axis = -1,
             Caller caller = Caller::current());  // an axis of 3; other axes broadcast
Tensor matrix_power(const Tensor& x, int64_t n,
                    Caller caller = Caller::current());  // (..., m, m), by squaring; n < 0: of the inverse
// Product of matrices in the order of least work (Cormen et al., "Introduction to algorithms", 15.2); the first and the
// last may be vectors.
Tensor multi_dot(std::span<const Tensor> matrices, Caller caller = Caller::current());
inline Tensor multi_dot(std::initializer_list<Tensor> matrices, Caller caller = Caller::current()) {
  return multi_dot(std::span<const Tensor>(matrices.begin(), matrices.size()), caller);
}

// ---- distances: p-norms, 0 < p <= infinity. The gradient at distance 0 is 0.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2,
             Caller caller = Caller::current());  // (..., m, d), (..., n, d): (..., m, n)
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double epsilon = 1e-6, bool keepdim = false,
                         Caller caller = Caller::current());  // of a - b + epsilon, last axis
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis = 1, double epsilon = 1e-8,
                         Caller caller = Caller::current());  // norms are at least epsilon
Tensor normalize(const Tensor& x, double p = 2, int axis = 1, double epsilon = 1e-12,
                 Caller caller = Caller::current());  // x / max(norm, epsilon)

}  // namespace heddle
