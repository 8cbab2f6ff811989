// The op table: every row as a constant, and lookup by name.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/op/decompose.h"
#include "heddle/core/op/op.h"
#include "heddle/core/op/packed_rows.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// Wide enough that no product of two int64 overflows; the caller wraps the result to the dtype.
__extension__ typedef __int128 Wide;

double floor_mod(double x, double y) {
  const double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
[[maybe_unused]] Wide floor_mod(Wide x, Wide y) {
  if (y == 0) return 0;
  const Wide r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// Newton's steps on erf, from Winitzki's approximation.
double inverse_erf(double x) {
  if (!(std::abs(x) < 1))
    return std::abs(x) == 1 ? std::copysign(std::numeric_limits<double>::infinity(), x)
                            : std::numeric_limits<double>::quiet_NaN();
  const double l = std::log1p(-x * x), t = 2 / (std::numbers::pi * 0.147) + l / 2;
  double y = std::copysign(std::sqrt(std::sqrt(t * t - l / 0.147) - t), x);
  for (int i = 0; i < 4; ++i) {
    const double error =
        std::abs(x) < 0.5 ? std::erf(y) - x : ((1 - std::abs(x)) - std::erfc(std::abs(y))) * std::copysign(1.0, x);
    y -= error * std::exp(y * y) * std::sqrt(std::numbers::pi) / 2;
  }
  return y;
}

// Rows over whole numbers; the forms over double are never called.
namespace bits {
[[maybe_unused]] Wide flip(Wide x) { return ~x; }
[[maybe_unused]] Wide both(Wide x, Wide y) { return x & y; }
[[maybe_unused]] Wide either(Wide x, Wide y) { return x | y; }
[[maybe_unused]] Wide one(Wide x, Wide y) { return x ^ y; }
[[maybe_unused]] Wide quotient(Wide x, Wide y) { return y == 0 ? Wide(0) : (x - floor_mod(x, y)) / y; }
[[maybe_unused]] Wide left(Wide x, Wide y) { return x * (Wide(1) << (y & 31)); }
[[maybe_unused]] Wide right(Wide x, Wide y) { return x >> (y & 31); }
double left(double x, double) { return x; }
double right(double x, double) { return x; }
double flip(double x) { return x; }
double both(double x, double) { return x; }
double either(double x, double) { return x; }
double one(double x, double) { return x; }
double quotient(double x, double) { return x; }
}  // namespace bits

constexpr bool takes_integers(DTypeRule rule) {
  return rule == DTypeRule::whole || rule == DTypeRule::numeric || rule == DTypeRule::compare ||
         rule == DTypeRule::logical;
}

// The host expressions of the rows, as templates over the type they compute in.
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  struct name##_host {                                               \
    template <class T>                                               \
    static auto apply(T x, T) {                                      \
      return host;                                                   \
    }                                                                \
  };
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) \
  struct name##_host {                                                \
    template <class T>                                                \
    static auto apply(T x, T y) {                                     \
      return host;                                                    \
    }                                                                 \
  };
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY

template <class Row>
double in_double(double x, double y, double) {
  return static_cast<double>(Row::template apply<double>(x, y));
}

template <class Row>
int64_t in_integers(int64_t x, int64_t y, int64_t) {
  return static_cast<int64_t>(Row::template apply<Wide>(x, y));
}

template <class Row, bool takes>
constexpr HostInt integer_host() {
  if constexpr (takes) {
    return &in_integers<Row>;
  } else {
    return nullptr;
  }
}

constexpr OpDef primitive(std::string_view name, OpKind kind, int arity, Autocast autocast, AttrsForm attrs,
                          std::string_view doc, Tensor (*decompose)(const Node&) = nullptr) {
  OpDef row;
  row.name = name;
  row.id = hash_string(name);
  row.kind = kind;
  row.arity = arity;
  row.rule = DTypeRule::any;
  row.autocast = autocast;
  row.attrs = attrs;
  row.doc = doc;
  row.decompose = decompose;
  return row;
}

constexpr Folded folded(std::string_view dialect) {
  if (dialect == "x * y") return Folded::by_zero;
  return dialect == "x - y" || dialect == "x / y" ? Folded::by_itself : Folded::never;
}

template <class Row, bool takes>
constexpr OpDef elementwise(std::string_view name, int arity, DTypeRule rule, Autocast autocast, int cost,
                            std::string_view dialect, std::string_view doc) {
  OpDef row;
  row.name = name;
  row.id = hash_string(name);
  row.arity = arity;
  row.rule = rule;
  row.autocast = autocast;
  row.doc = doc;
  row.dialect = dialect;
  row.host_float = &in_double<Row>;
  row.host_int = integer_host<Row, takes>();
  row.cost = cost;
  row.transcendental = cost >= 10;
  row.folded = folded(dialect);
  return row;
}

constexpr OpDef transcendental(OpDef row) {
  row.transcendental = true;
  return row;
}

}  // namespace

namespace ops {

// Constant-initialised: usable from other static initialisers.
#define HEDDLE_PRIMITIVE(name, kind, arity, autocast, form, ...) \
  constinit const OpDef name##_op =                              \
      primitive(#name, OpKind::kind, arity, Autocast::autocast, AttrsForm::form, __VA_ARGS__);
HEDDLE_PRIMITIVE(leaf, leaf, 0, widest, free, "a value that is there")
HEDDLE_PRIMITIVE(loop_arg, leaf, 0, widest, free,
                 "what a loop's body is given: a carry, a slice, or a tensor from outside")
HEDDLE_PRIMITIVE(full, constant, 0, widest, none, "every element is one number")
HEDDLE_PRIMITIVE(iota, constant, 0, widest, axis, "start + step * index along one axis")
HEDDLE_PRIMITIVE(cast, elementwise, 1, widest, none,
                 "x in another dtype; float to integer truncates toward zero, to bool is x != 0")
HEDDLE_PRIMITIVE(where, elementwise, 3, widest, none, "condition ? x : y")
HEDDLE_PRIMITIVE(stop_gradient, elementwise, 1, widest, none, "x, through which no gradient flows")
HEDDLE_PRIMITIVE(sum, reduce, 1, f32, axes, "sum over axes; empty: 0")
HEDDLE_PRIMITIVE(prod, reduce, 1, f32, axes, "product over axes; empty: 1")
HEDDLE_PRIMITIVE(max, reduce, 1, widest, axes, "largest over axes; NaN if one is NaN")
HEDDLE_PRIMITIVE(min, reduce, 1, widest, axes, "smallest over axes; NaN if one is NaN")
HEDDLE_PRIMITIVE(argmax, reduce, 1, widest, axis, "index of the largest along an axis; first on ties, a NaN wins")
HEDDLE_PRIMITIVE(argmin, reduce, 1, widest, axis, "index of the smallest along an axis; first on ties, a NaN wins")
HEDDLE_PRIMITIVE(reshape, movement, 1, widest, none, "the same elements in row-major order in another shape")
HEDDLE_PRIMITIVE(permute, movement, 1, widest, order, "axes in another order")
HEDDLE_PRIMITIVE(expand, movement, 1, widest, none, "axes of size 1 repeated")
HEDDLE_PRIMITIVE(slice, movement, 1, widest, slice, "start and step along each axis")
HEDDLE_PRIMITIVE(flip, movement, 1, widest, axes, "axes reversed")
HEDDLE_PRIMITIVE(pad, movement, 1, widest, before, "a constant border around x")
HEDDLE_PRIMITIVE(concat, movement, -1, widest, axis, "inputs one after the other along an axis")
HEDDLE_PRIMITIVE(take, index, 2, widest, axis, "x[..., indices, ...] along an axis")
HEDDLE_PRIMITIVE(gather, index, 2, widest, axis, "out[i][j] = x[indices[i][j]][j] for axis 0")
HEDDLE_PRIMITIVE(conv, body, 2, low, conv, "convolution of images x with weights w")
HEDDLE_PRIMITIVE(conv_input_grad, body, 2, low, conv, "gradient of conv by x: transposed convolution")
HEDDLE_PRIMITIVE(conv_weight_grad, body, 2, widest, conv, "gradient of conv by w")
HEDDLE_PRIMITIVE(matmul, contraction, 2, low, none, "(..., M, K) times (..., K, N)")
HEDDLE_PRIMITIVE(unpack_blocks, body, 1, widest, free, "the elements of packed blocks")
HEDDLE_PRIMITIVE(matmul_packed, body, 2, widest, free, "x times the elements of packed blocks, transposed",
                 &decompose_matmul_packed)
HEDDLE_PRIMITIVE(matmul_packed_input_grad, body, 2, widest, free, "gradient of matmul_packed by x",
                 &decompose_matmul_packed_input_grad)
HEDDLE_PRIMITIVE(attention, body, -1, low, attention,
                 "softmax(scale q k^T + bias) v, and the logarithms of the rows' sums", &decompose_attention)
HEDDLE_PRIMITIVE(attention_query_gradient, body, -1, widest, attention, "gradient of attention for its queries",
                 &decompose_attention_query_gradient)
HEDDLE_PRIMITIVE(attention_key_gradient, body, -1, widest, attention, "gradients of attention for its keys and values",
                 &decompose_attention_key_gradient)
HEDDLE_PRIMITIVE(attention_bias_gradient, body, -1, widest, attention, "gradient of attention for its bias",
                 &decompose_attention_bias_gradient)
HEDDLE_PRIMITIVE(scatter_rows, body, 3, widest, none, "base, plus rows of u added at the rows that i names")
HEDDLE_PRIMITIVE(copy_rows, body, 3, widest, axis,
                 "x with the rows that i names replaced by those of u; the last one wins", &decompose_copy_rows)
HEDDLE_PRIMITIVE(argsort, body, 1, widest, sort, "indices that order the last axis, stable; NaN counts as largest")
HEDDLE_PRIMITIVE(cumsum, body, -1, f32, scan, "running sums along an axis")
HEDDLE_PRIMITIVE(cumprod, body, -1, f32, scan, "running products along an axis")
HEDDLE_PRIMITIVE(cummax, body, -1, widest, scan, "running maxima along an axis; NaN from the first one on")
constinit const OpDef logcumsumexp_op = transcendental(primitive(
    "logcumsumexp", OpKind::body, -1, Autocast::f32, AttrsForm::scan, "log of the running sum of e^x along an axis"));
HEDDLE_PRIMITIVE(random_uniform, random, 1, widest, none, "Philox bits as f32 in [0, 1)")
HEDDLE_PRIMITIVE(softmax, fused, 1, f32, axis, "exp(x) / sum(exp(x)) along an axis", &decompose_softmax)
HEDDLE_PRIMITIVE(log_softmax, fused, 1, f32, axis, "x - logsumexp(x) along an axis", &decompose_log_softmax)
HEDDLE_PRIMITIVE(logsumexp, fused, 1, f32, axis, "log(sum(exp(x))) along an axis", &decompose_logsumexp)
HEDDLE_PRIMITIVE(cross_entropy, fused, 2, f32, none, "-log_softmax(logits)[n, targets[n]] for each row n",
                 &decompose_cross_entropy)
HEDDLE_PRIMITIVE(cholesky, fused, 1, widest, free,
                 "L with L L^T = x, and the order of the first leading minor that is not positive",
                 &linalg::decompose_cholesky)
HEDDLE_PRIMITIVE(lu, fused, 1, widest, free, "L, U and the rows' permutation with P L U = x", &linalg::decompose_lu)
HEDDLE_PRIMITIVE(solve_triangular, fused, 2, widest, triangle, "x with t x = b for a triangular t",
                 &linalg::decompose_solve_triangular)
HEDDLE_PRIMITIVE(linear_solve, fused, 3, widest, free, "x with a x = b from the LU factors of a",
                 &linalg::decompose_linear_solve)
HEDDLE_PRIMITIVE(det, fused, 2, widest, free, "determinant of a from its LU factors", &linalg::decompose_det)
HEDDLE_PRIMITIVE(qr, fused, 1, widest, free, "Q with orthonormal columns and R upper triangular, Q R = x",
                 &linalg::decompose_qr)
HEDDLE_PRIMITIVE(eigh, fused, 1, widest, free, "eigenvectors and ascending eigenvalues of a symmetric x",
                 &linalg::decompose_eigh)
HEDDLE_PRIMITIVE(svd, fused, 1, widest, free, "U, s and V^T with U diag(s) V^T = x, s descending",
                 &linalg::decompose_svd)
HEDDLE_PRIMITIVE(custom, fused, -1, widest, free, "its first input, with a derivative given by hand", &decompose_custom)
HEDDLE_PRIMITIVE(assign, effect, 2, widest, none, "value, written into the target's storage")
HEDDLE_PRIMITIVE(while_result, effect, -1, widest, free, "what a while_loop of unknown length ended with")
HEDDLE_PRIMITIVE(loop, effect, -1, widest, free, "a body repeated: scan, cond and while_loop are made of it")
HEDDLE_PRIMITIVE(loop_result, effect, 1, widest, free,
                 "a carry after the last iteration, or a value of the body from every iteration")
HEDDLE_PRIMITIVE(psum, collective, 1, widest, collective, "sum over the ranks along axes of a mesh")
HEDDLE_PRIMITIVE(pmax, collective, 1, widest, collective, "largest over the ranks along axes; NaN if one is NaN")
HEDDLE_PRIMITIVE(pmin, collective, 1, widest, collective, "smallest over the ranks along axes; NaN if one is NaN")
HEDDLE_PRIMITIVE(all_gather, collective, 1, widest, collective, "x of every rank along axes, stacked in front")
HEDDLE_PRIMITIVE(reduce_scatter, collective, 1, widest, collective,
                 "the own one of the parts along the first axis, summed over the ranks along axes")
HEDDLE_PRIMITIVE(all_to_all, collective, 1, widest, collective,
                 "a part along the first axis from each rank along axes, which gets one as well")
HEDDLE_PRIMITIVE(ppermute, collective, 1, widest, collective, "x of another rank along axes; zeros where none sends")
HEDDLE_PRIMITIVE(pvary, collective, 1, widest, collective, "x, as a value that may differ between ranks along axes")
#undef HEDDLE_PRIMITIVE

#define HEDDLE_ROW(name, arity, rule, autocast, cost, dialect, doc)                            \
  constinit const OpDef name##_op = elementwise<name##_host, takes_integers(DTypeRule::rule)>( \
      #name, arity, DTypeRule::rule, Autocast::autocast, cost, dialect, doc);
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  HEDDLE_ROW(name, 1, rule, autocast, cost, dialect, doc)
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) \
  HEDDLE_ROW(name, 2, rule, autocast, cost, dialect, doc)
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY
#undef HEDDLE_ROW

}  // namespace ops

namespace {

const OpDef* const table[] = {&ops::leaf_op,
                              &ops::loop_arg_op,
                              &ops::full_op,
                              &ops::iota_op,
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) &ops::name##_op,
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) &ops::name##_op,
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY
                              &ops::cast_op,
                              &ops::where_op,
                              &ops::stop_gradient_op,
                              &ops::sum_op,
                              &ops::prod_op,
                              &ops::max_op,
                              &ops::min_op,
                              &ops::argmax_op,
                              &ops::argmin_op,
                              &ops::reshape_op,
                              &ops::permute_op,
                              &ops::expand_op,
                              &ops::slice_op,
                              &ops::flip_op,
                              &ops::pad_op,
                              &ops::concat_op,
                              &ops::take_op,
                              &ops::gather_op,
                              &ops::matmul_op,
                              &ops::unpack_blocks_op,
                              &ops::matmul_packed_op,
                              &ops::matmul_packed_input_grad_op,
                              &ops::scatter_rows_op,
                              &ops::copy_rows_op,
                              &ops::argsort_op,
                              &ops::cumsum_op,
                              &ops::cumprod_op,
                              &ops::cummax_op,
                              &ops::logcumsumexp_op,
                              &ops::conv_op,
                              &ops::conv_input_grad_op,
                              &ops::conv_weight_grad_op,
                              &ops::attention_op,
                              &ops::attention_query_gradient_op,
                              &ops::attention_key_gradient_op,
                              &ops::attention_bias_gradient_op,
                              &ops::random_uniform_op,
                              &ops::softmax_op,
                              &ops::log_softmax_op,
                              &ops::logsumexp_op,
                              &ops::cross_entropy_op,
                              &ops::custom_op,
                              &ops::cholesky_op,
                              &ops::lu_op,
                              &ops::solve_triangular_op,
                              &ops::linear_solve_op,
                              &ops::det_op,
                              &ops::qr_op,
                              &ops::eigh_op,
                              &ops::svd_op,
                              &ops::assign_op,
                              &ops::while_result_op,
                              &ops::loop_op,
                              &ops::loop_result_op,
                              &ops::psum_op,
                              &ops::pmax_op,
                              &ops::pmin_op,
                              &ops::all_gather_op,
                              &ops::reduce_scatter_op,
                              &ops::all_to_all_op,
                              &ops::ppermute_op,
                              &ops::pvary_op};

}  // namespace

std::span<const OpDef* const> all_ops() { return table; }

const OpDef* find_op(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const OpDef*> result;
    for (const OpDef* row : table) result.emplace(row->name, row);
    return result;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

const OpDef& op(std::string_view name) {
  if (const OpDef* row = find_op(name)) return *row;
  throw ValueError(fmt::format("[op] unknown op '{}'; `heddle ops` lists the known ones", name));
}

std::string_view name_of(Autocast policy) {
  switch (policy) {
    case Autocast::widest:
      return "widest";
    case Autocast::low:
      return "low";
    case Autocast::f32:
      return "f32";
  }
  return "?";
}

std::string_view name_of(OpKind kind) {
  switch (kind) {
    case OpKind::leaf:
      return "leaf";
    case OpKind::constant:
      return "constant";
    case OpKind::elementwise:
      return "elementwise";
    case OpKind::reduce:
      return "reduce";
    case OpKind::movement:
      return "movement";
    case OpKind::index:
      return "index";
    case OpKind::contraction:
      return "contraction";
    case OpKind::body:
      return "body";
    case OpKind::random:
      return "random";
    case OpKind::fused:
      return "fused";
    case OpKind::effect:
      return "effect";
    case OpKind::collective:
      return "collective";
  }
  return "?";
}

}  // namespace heddle
