// References of the rows of kind body, in double precision and in the order of their definitions (primitives.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <unordered_map>

#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/user/user_definition.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/packed_rows.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle::reference {
namespace {

HostArray scatter_rows(const Node&, Inputs in) {
  const HostArray &base = *in[0], &indices = *in[1], &rows = *in[2];
  HostArray out = base;
  const int64_t height = base.shape[0];
  const Rows layout(rows.shape, 0);
  for (size_t n = 0; n < indices.ints.size(); ++n) {
    const int64_t row = indices.ints[n];
    if (row < 0 || row >= height) continue;
    for (int64_t i = 0; i < layout.inner; ++i) {
      const auto to = static_cast<size_t>(row * layout.inner + i);
      const size_t from = layout.at(0, static_cast<int64_t>(n), i);
      if (is_float(out.dtype)) {
        out.floats[to] += rows.floats[from];
      } else {
        out.ints[to] = wrapped(add_wrapping(out.ints[to], rows.ints[from]), out.dtype);
      }
    }
  }
  return out;
}

HostArray copy_rows(const Node& node, Inputs in) {
  const HostArray &x = *in[0], &indices = *in[1], &source = *in[2];
  HostArray out = x;
  const int axis = axis_of(node.attrs);
  const Rows to(x.shape, axis), from(source.shape, axis);
  for (int64_t j = 0; j < from.size; ++j) {
    const int64_t row = indices.ints[static_cast<size_t>(j)];
    if (row < 0 || row >= to.size) continue;
    for (int64_t o = 0; o < to.outer; ++o) {
      for (int64_t i = 0; i < to.inner; ++i) {
        if (is_float(out.dtype))
          out.floats[to.at(o, row, i)] = source.floats[from.at(o, j, i)];
        else
          out.ints[to.at(o, row, i)] = source.ints[from.at(o, j, i)];
      }
    }
  }
  return out;
}

template <class T>
void order_row(const T* x, int64_t size, bool descending, std::vector<int64_t>& order) {
  const auto larger = [](T a, T b) { return a > b || (a != a && b == b); };
  order.resize(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return descending ? larger(x[a], x[b]) : larger(x[b], x[a]); });
}

HostArray argsort(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const SortAttrs attrs(node.attrs);
  const int64_t size = in[0]->shape[in[0]->shape.rank() - 1], kept = attrs.kept;
  std::vector<int64_t> order;
  for (int64_t row = 0; size > 0 && row < in[0]->shape.numel() / size; ++row) {
    if (is_float(in[0]->dtype))
      order_row(in[0]->floats.data() + row * size, size, attrs.descending, order);
    else
      order_row(in[0]->ints.data() + row * size, size, attrs.descending, order);
    std::copy_n(order.begin(), kept, out.ints.begin() + row * kept);
  }
  return out;
}

template <class T, class F>
void scan_rows(const Node& node, const std::vector<T>& x, std::vector<T>& out, T start, F&& combine) {
  const ScanAttrs attrs(node.attrs);
  const bool exclusive = attrs.exclusive, reverse = attrs.reverse;
  const Rows rows(node.shape, attrs.axis);
  for (int64_t o = 0; o < rows.outer; ++o) {
    for (int64_t i = 0; i < rows.inner; ++i) {
      T value = start;
      for (int64_t k = 0; k < rows.size; ++k) {
        const auto at = static_cast<size_t>(rows.at(o, reverse ? rows.size - 1 - k : k, i));
        const T next = combine(value, x[at]);
        out[at] = exclusive ? value : next;
        value = next;
      }
    }
  }
}

double log_sum(double a, double b) {
  return a == b ? a + std::log(2.0) : std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

HostArray running_maximum(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const auto larger = [](auto a, auto b) { return a > b || a != a ? a : b; };
  if (is_float(node.dtype))
    scan_rows(node, in[0]->floats, out.floats, -std::numeric_limits<double>::infinity(), larger);
  else
    scan_rows(node, in[0]->ints, out.ints, std::numeric_limits<int64_t>::min(), larger);
  return out;
}

HostArray running_log_sum(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  scan_rows(node, in[0]->floats, out.floats, -std::numeric_limits<double>::infinity(), log_sum);
  return out;
}

HostArray scan(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const bool product = node.op == &ops::cumprod_op;
  if (is_float(node.dtype)) {
    scan_rows(node, in[0]->floats, out.floats, product ? 1.0 : 0.0,
              [product](double a, double b) { return product ? a * b : a + b; });
  } else {
    scan_rows(node, in[0]->ints, out.ints, int64_t{product},
              [product](int64_t a, int64_t b) { return product ? multiply_wrapping(a, b) : add_wrapping(a, b); });
  }
  return out;
}

using Body = HostArray (*)(const Node& node, Inputs in);

const std::unordered_map<const OpDef*, Body>& bodies() {
  static const std::unordered_map<const OpDef*, Body> table = {
      {&ops::unpack_blocks_op, packed},
      {&ops::matmul_packed_op, packed},
      {&ops::matmul_packed_input_grad_op, packed},
      {&ops::scatter_rows_op, scatter_rows},
      {&ops::copy_rows_op, copy_rows},
      {&ops::argsort_op, argsort},
      {&ops::cumsum_op, scan},
      {&ops::cumprod_op, scan},
      {&ops::cummax_op, running_maximum},
      {&ops::logcumsumexp_op, running_log_sum},
      {&ops::conv_op, conv},
      {&ops::conv_input_grad_op, conv},
      {&ops::conv_weight_grad_op, conv},
      {&ops::attention_op, attention},
      {&linalg::cholesky_block_op, linear_algebra},
      {&linalg::lu_panel_op, linear_algebra},
      {&linalg::triangular_block_op, linear_algebra},
      {&linalg::join_blocks_op, linear_algebra},
      {&linalg::qr_panel_op, condensing},
      {&linalg::tridiagonal_op, condensing},
      {&linalg::bidiagonal_op, condensing},
      {&linalg::tridiagonal_sweeps_op, sweeps},
      {&linalg::bidiagonal_sweeps_op, sweeps},
      {&linalg::rotate_rows_op, sweeps},
      {&linalg::rotate_op, spectral},
      {&ops::attention_query_gradient_op, attention_gradient},
      {&ops::attention_key_gradient_op, attention_gradient},
      {&ops::attention_bias_gradient_op, attention_gradient},
  };
  return table;
}

}  // namespace

HostArray user_body(const UserDefinition& definition, const Node& node, Inputs in) {
  if (!definition.body.host)
    throw ValueError(fmt::format(
        "[{}] it has no host function, so the reference cannot compute it; give one in its definition (host)",
        definition.name));
  std::vector<UserArray> given, made;
  std::vector<TensorType> types;
  for (const HostArray* x : in) {
    types.push_back({x->shape, x->dtype});
    given.push_back({x->shape, std::vector<double>(static_cast<size_t>(x->shape.numel()))});
    for (size_t i = 0; i < given.back().values.size(); ++i) given.back().values[i] = x->at(i);
  }
  for (const TensorType& type : user_outputs(definition, types))
    made.push_back({type.shape, std::vector<double>(static_cast<size_t>(type.shape.numel()))});
  definition.body.host(given, made);
  HostArray out = blank(node.shape, node.dtype);
  size_t at = 0;
  for (const UserArray& part : made) {
    if (static_cast<int64_t>(part.values.size()) != part.shape.numel())
      throw ValueError(fmt::format("[{}] its host function changed the size of a result", definition.name));
    for (const double value : part.values) {
      if (is_float(node.dtype))
        out.floats[at++] = value;
      else
        out.ints[at++] = to_integer(value, node.dtype);
    }
  }
  return out;
}

HostArray body(const Node& node, Inputs in) {
  if (const UserRow* user = as_user(*node.op)) return user_body(*user->definition, node, in);
  const auto found = bodies().find(node.op);
  if (found == bodies().end())
    throw std::logic_error(fmt::format("[reference] {} has no line in reference_bodies.cpp", node.op->name));
  return found->second(node, in);
}

}  // namespace heddle::reference
