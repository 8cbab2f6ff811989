// The public operations on tensors.
//
// Purpose: each function checks shapes and dtypes where the user wrote it and records nodes. Shapes broadcast as in
// NumPy; dtypes promote by promote() (core/base/dtype.h). Python-style numbers (double) take the tensor's dtype, except
// that a fractional number beside an integer tensor gives f32. All note the place of the call (core/base/caller.h).
// Errors: ShapeError, DTypeError, ValueError; the text names the op, the shapes and the likely cause. Thread safety:
// recording is per thread.
//
// Unary and binary elementwise functions are declared from their rows in core/op/elementwise.inc.
#pragma once

#include <optional>
#include <utility>

#include "heddle/core/functions/linalg/einsum.h"
#include "heddle/core/functions/linalg/linalg.h"
#include "heddle/core/functions/linalg/matrix.h"
#include "heddle/core/functions/math/activations.h"
#include "heddle/core/functions/math/fft.h"
#include "heddle/core/functions/math/math.h"
#include "heddle/core/functions/math/special.h"
#include "heddle/core/functions/math/statistics.h"
#include "heddle/core/functions/nn/bags.h"
#include "heddle/core/functions/nn/conv.h"
#include "heddle/core/functions/nn/image.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/core/functions/nn/pool.h"
#include "heddle/core/functions/random/distributions.h"
#include "heddle/core/functions/random/samples.h"
#include "heddle/core/functions/shape/arrange.h"
#include "heddle/core/functions/shape/diagonals.h"
#include "heddle/core/functions/shape/ordered_sets.h"
#include "heddle/core/functions/shape/padding.h"
#include "heddle/core/functions/shape/positions.h"
#include "heddle/core/functions/shape/scatter.h"
#include "heddle/core/functions/shape/shape.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// ---- elementwise, from the table: Tensor exp(const Tensor& x); Tensor add(const Tensor& x, const Tensor& y); ...
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) Tensor name(TensorArg x);
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) \
  Tensor name(TensorArg x, const Tensor& y);                          \
  Tensor name(TensorArg x, double y);                                 \
  Tensor name(double x, TensorArg y);
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY

Tensor cast(const Tensor& x, DType dtype, Caller caller = Caller::current());
Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y, Caller caller = Caller::current());
Tensor where(const Tensor& condition, const Tensor& x, double y, Caller caller = Caller::current());
Tensor where(const Tensor& condition, double x, const Tensor& y, Caller caller = Caller::current());
Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high, Caller caller = Caller::current());

Tensor operator-(TensorArg x);
Tensor operator!(TensorArg x);
#define HEDDLE_OPERATOR(symbol)                     \
  Tensor operator symbol(TensorArg x, TensorArg y); \
  Tensor operator symbol(TensorArg x, double y);    \
  Tensor operator symbol(double x, TensorArg y);
HEDDLE_OPERATOR(+)
HEDDLE_OPERATOR(-)
HEDDLE_OPERATOR(*)
HEDDLE_OPERATOR(/)
HEDDLE_OPERATOR(==)
HEDDLE_OPERATOR(!=)
HEDDLE_OPERATOR(<)
HEDDLE_OPERATOR(<=)
HEDDLE_OPERATOR(>)
HEDDLE_OPERATOR(>=)
HEDDLE_OPERATOR(&&)
HEDDLE_OPERATOR(||)
#undef HEDDLE_OPERATOR

// x += y is x = x + y: a new value for this handle alone, perhaps of another shape or dtype. Copies of the handle keep
// the old one, and gradients flow through the sum; assign() is what writes into a value that others see. GradError for
// a leaf that requires a gradient, which its handle would lose: x.assign(x + y) within a NoGradScope updates it.
struct TensorTarget {
  TensorTarget(Tensor& value, Caller where = Caller::current()) : tensor(value), caller(where) {}
  Tensor& tensor;
  Caller caller;
};
#define HEDDLE_OPERATOR(symbol)                             \
  Tensor& operator symbol(TensorTarget x, const Tensor& y); \
  Tensor& operator symbol(TensorTarget x, double y);
HEDDLE_OPERATOR(+=)
HEDDLE_OPERATOR(-=)
HEDDLE_OPERATOR(*=)
HEDDLE_OPERATOR(/=)
#undef HEDDLE_OPERATOR

// ---- reductions; axes {} means all; keepdim keeps reduced axes with size 1. Integers: sum and prod give i64 (bool and
// narrow integers too), max/min keep the dtype, mean/var/logsumexp give floats (integers cast to f32). argmax/argmin
// take one axis (or none: flattened), give i64, first index on ties. Empty reductions: sum 0, prod 1, mean NaN;
// max/min/argmax throw ShapeError. NaN propagates.
Tensor sum(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor mean(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor max(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor min(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor prod(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor argmax(const Tensor& x, std::optional<int> axis = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor argmin(const Tensor& x, std::optional<int> axis = {}, bool keepdim = false, Caller caller = Caller::current());
// Population variance divides by n - correction (correction 1: Bessel, PyTorch's default).
Tensor var(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, double correction = 1,
           Caller caller = Caller::current());
Tensor logsumexp(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());

// Running sums and products along an axis, from the end with `reverse`; `exclusive` leaves out the element itself (it
// starts with 0 or 1). Integers and bool give i64. Deterministic: long axes are summed in pieces of a size that depends
// on the shape and device alone.
Tensor cumsum(const Tensor& x, int axis, bool exclusive = false, bool reverse = false,
              Caller caller = Caller::current());
Tensor cumprod(const Tensor& x, int axis, bool exclusive = false, bool reverse = false,
               Caller caller = Caller::current());

// ---- order. Stable: equal elements (-0 and 0 too) keep their order. A NaN counts as larger than every number, as in
// NumPy and PyTorch: last in ascending order, first in descending order and in topk. Indices are i64. Gradients flow
// through the values. A scalar is refused.
struct Ordered {
  Tensor values, indices;
};
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false, Caller caller = Caller::current());
Ordered sort(const Tensor& x, int axis = -1, bool descending = false, Caller caller = Caller::current());
// The k largest (or smallest) in order. ValueError unless 0 <= k <= the axis.
Ordered topk(const Tensor& x, int64_t k, int axis = -1, bool largest = true, Caller caller = Caller::current());

// ---- movement: views where they exist
Tensor reshape(const Tensor& x, const Shape& shape, Caller caller = Caller::current());          // no -1
Tensor reshape(const Tensor& x, std::vector<int64_t> shape, Caller caller = Caller::current());  // one -1 is inferred
inline Tensor reshape(const Tensor& x, std::initializer_list<int64_t> shape, Caller caller = Caller::current()) {
  return reshape(x, std::vector<int64_t>(shape), caller);
}
Tensor permute(const Tensor& x, std::vector<int> order, Caller caller = Caller::current());
Tensor transpose(const Tensor& x, int axis0 = -2, int axis1 = -1, Caller caller = Caller::current());
Tensor expand(const Tensor& x, const Shape& shape, Caller caller = Caller::current());  // broadcast to shape
Tensor squeeze(const Tensor& x, std::optional<int> axis = {}, Caller caller = Caller::current());
Tensor unsqueeze(const Tensor& x, int axis, Caller caller = Caller::current());
Tensor slice(const Tensor& x, int axis, Slice range, Caller caller = Caller::current());
Tensor slice(const Tensor& x, std::span<const Slice> ranges,
             Caller caller = Caller::current());  // one per leading axis
Tensor flip(const Tensor& x, std::vector<int> axes, Caller caller = Caller::current());
// (before, after) per axis, counted from the first; negative amounts are refused.
Tensor pad(const Tensor& x, std::vector<std::pair<int64_t, int64_t>> amounts, double value = 0,
           Caller caller = Caller::current());
Tensor concat(std::span<const Tensor> parts, int axis, Caller caller = Caller::current());
inline Tensor concat(std::initializer_list<Tensor> parts, int axis, Caller caller = Caller::current()) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis, caller);
}
std::vector<Tensor> split(const Tensor& x, std::vector<int64_t> sizes, int axis, Caller caller = Caller::current());

// ---- indexing. Indices are i32 or i64. Out-of-range indices: negative ones count from the end once; what is still out
// of range is clamped to the nearest valid index (device code cannot throw; nothing outside the buffer is ever read).
// The guard names it where it looks: core/functions/shape/index_check.h.
Tensor take(const Tensor& x, const Tensor& indices, int axis = 0,
            Caller caller = Caller::current());  // out: x.shape[:axis] + indices.shape + x.shape[axis+1:]
Tensor gather(const Tensor& x, int axis, const Tensor& indices,
              Caller caller = Caller::current());           // torch.gather: out[i][j] = x[indices[i][j]][j] for axis 0
Tensor embedding(TensorArg weight, const Tensor& indices);  // take along axis 0 with a shape check
Tensor one_hot(const Tensor& indices, int64_t classes, DType dtype = DType::f32, Caller caller = Caller::current());
// torch.scatter_add: out = x; out[indices[i][j]][j] += source[i][j] for axis 0. Out-of-range indices are ignored.
// Deterministic.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& indices, const Tensor& source,
                   Caller caller = Caller::current());
// out = x; out[indices[i], ...] += source[i, ...]: rows; indices rank 1. Deterministic.
Tensor index_add(TensorArg x, const Tensor& indices, const Tensor& source);

// ---- contraction. Like torch.matmul: vectors, matrices, broadcast batches; transposed operands are views, never
// copies.
Tensor matmul(TensorArg a, const Tensor& b);

// Convolutions: core/functions/nn/conv.h.

// ---- random: Philox4x32-10, the same bits on every device. The generator is per process unless given; manual_seed
// resets it.
void manual_seed(uint64_t seed);
struct Generator {
  uint64_t seed = 0;
  uint64_t offset = 0;                           // advanced by each draw
  ~Generator() { trace::host_state_changed(); }  // compiled functions that drew from it look again
};
Generator& default_generator();
Tensor uniform(const Shape& shape, double low = 0, double high = 1, DeviceContext* device = nullptr,
               Generator* generator = nullptr, Caller caller = Caller::current());
Tensor normal(const Shape& shape, double mean = 0, double stddev = 1, DeviceContext* device = nullptr,
              Generator* generator = nullptr, Caller caller = Caller::current());
Tensor bernoulli(const Shape& shape, double p, DeviceContext* device = nullptr, Generator* generator = nullptr,
                 Caller caller = Caller::current());  // f32 0 or 1
Tensor dropout(const Tensor& x, double p, bool training = true, Generator* generator = nullptr,
               Caller caller = Caller::current());

// ---- composed and fused
Tensor softmax(const Tensor& x, int axis = -1, Caller caller = Caller::current());
Tensor log_softmax(const Tensor& x, int axis = -1, Caller caller = Caller::current());
struct AttentionOptions {
  Tensor bias;      // floating, broadcasts to (B, H, T, S); added to the scores; -infinity hides a key. Has a gradient
  Tensor key_mask;  // bool (B, S): true where a key may be attended to
  Tensor key_lengths;   // i32 or i64 (B): keys from there on are hidden, and not even read
  bool causal = false;  // query i sees keys up to i + S - T: the last query sees all, as in generation with a cache
  std::optional<double> scale;  // of q . k; 1 / sqrt(D) unless given
  double dropout = 0;           // of the weights; they are drawn again, not stored, for the gradient
  Generator* generator = nullptr;
};
// softmax(scale q k^T + bias) v for q (B, H, T, D), k (B, J, S, D), v (B, J, S, E): (B, H, T, E). H is a multiple of J,
// and query head h reads key head h / (H / J). One pass with online softmax; no matrix of scores is stored, in the
// gradient neither. A query that sees no key gives zeros. Any strides: pieces of one (B, T, 3, H, D) projection are
// read in place. Heads of more than 256 elements, and f64, are computed by the unfused graph. ShapeError, DTypeError,
// ValueError. Dao et al., "FlashAttention: fast and memory-efficient exact attention", 2022.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {}, Caller caller = Caller::current());
// More losses: core/functions/nn/losses.h.
// logits (N, C) and integer targets (N): mean over N of -log_softmax(logits)[n, target[n]].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, Reduction reduction = Reduction::mean,
                     Caller caller = Caller::current());
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, Reduction reduction = Reduction::mean,
                Caller caller = Caller::current());
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                Caller caller = Caller::current());
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
               Caller caller = Caller::current());
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, Reduction reduction = Reduction::mean,
                       Caller caller = Caller::current());
Tensor huber_loss(const Tensor& input, const Tensor& target, double delta = 1, Reduction reduction = Reduction::mean,
                  Caller caller = Caller::current());
// torch's kl_div with log input and plain target: target * (log target - input); mean divides by the number of
// elements.
Tensor kl_div(const Tensor& log_input, const Tensor& target, Reduction reduction = Reduction::mean,
              Caller caller = Caller::current());

// ---- creation
Tensor full(const Shape& shape, double value, DType dtype = DType::f32, DeviceContext* device = nullptr,
            Caller caller = Caller::current());
Tensor zeros(const Shape& shape, DType dtype = DType::f32, DeviceContext* device = nullptr,
             Caller caller = Caller::current());
Tensor ones(const Shape& shape, DType dtype = DType::f32, DeviceContext* device = nullptr,
            Caller caller = Caller::current());
Tensor full_like(const Tensor& x, double value, Caller caller = Caller::current());
Tensor zeros_like(TensorArg x);
Tensor ones_like(TensorArg x);
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::f32, DeviceContext* device = nullptr,
              Caller caller = Caller::current());
Tensor linspace(double start, double stop, int64_t count, DType dtype = DType::f32, DeviceContext* device = nullptr,
                Caller caller = Caller::current());
Tensor eye(int64_t rows, int64_t columns = -1, DType dtype = DType::f32, DeviceContext* device = nullptr,
           Caller caller = Caller::current());

// ---- graph plumbing
// Multi-output helper for in-place updates: see Tensor::assign.
Tensor stop_gradient(TensorArg x);

}  // namespace heddle
