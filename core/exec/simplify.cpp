// Rewrites the planner's graph bottom-up: each vertex is rebuilt from its rewritten inputs, local rules are tried, and equal vertices
// become one (hash consing), so common subexpressions and dead vertices vanish without passes of their own.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "core/exec/access.h"
#include "core/exec/ir.h"
#include "core/graph/primitives.h"

namespace heddle {
namespace {

std::vector<uint64_t> structure(const IrNode& node) {
  std::vector<uint64_t> key{reinterpret_cast<uint64_t>(node.op), static_cast<uint64_t>(node.dtype), std::bit_cast<uint64_t>(node.attrs.real),
                            std::bit_cast<uint64_t>(node.attrs.real2), static_cast<uint64_t>(node.shape.rank()) | static_cast<uint64_t>(node.keep) << 32};
  for (int64_t d : node.shape) key.push_back(static_cast<uint64_t>(d));
  for (int64_t i : node.attrs.ints) key.push_back(static_cast<uint64_t>(i));
  key.push_back(node.inputs.size());
  for (int i : node.inputs) key.push_back(static_cast<uint64_t>(i));
  key.push_back(reinterpret_cast<uint64_t>(node.loop.get()));
  return key;
}

// The value a full node of dtype `t` really holds.
double rounded(double value, DType t) {
  std::array<unsigned char, 8> raw{};
  store_element(raw.data(), t, 0, value);
  return load_element(raw.data(), t, 0);
}

class Simplifier {
 public:
  explicit Simplifier(const Graph& in) : in_(in) {
    out_.leaves = in.leaves;
    out_.storage_slots = in.storage_slots;
    out_.host_slots = in.host_slots;
  }

  Graph run() {
    mark_live();
    std::vector<int> to(in_.nodes.size(), -1);
    for (size_t i = 0; i < in_.nodes.size(); ++i) {
      if (!live_[i]) continue;
      IrNode node = in_.nodes[i];
      for (int& input : node.inputs) input = to[input];
      keep_ = node.keep;
      origin_ = node.origin;
      to[i] = make(std::move(node));
      users_of_[to[i]] += users_[i];
    }
    for (const IrOutput& output : in_.outputs) out_.outputs.push_back({to[output.node], output.assign_slot});
    return drop_dead(std::move(out_));
  }

  static Graph drop_dead(Graph graph) {
    std::vector<bool> live(graph.nodes.size(), false);
    for (const IrOutput& output : graph.outputs) live[output.node] = true;
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      if (live[i]) {
        for (int input : graph.nodes[i].inputs) live[input] = true;
      }
    }
    Graph kept;
    kept.leaves = std::move(graph.leaves);
    kept.storage_slots = graph.storage_slots;
    kept.host_slots = graph.host_slots;
    std::vector<int> to(graph.nodes.size(), -1);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!live[i]) continue;
      for (int& input : graph.nodes[i].inputs) input = to[input];
      to[i] = kept.add(std::move(graph.nodes[i]));
    }
    for (const IrOutput& output : graph.outputs) kept.outputs.push_back({to[output.node], output.assign_slot});
    return kept;
  }

 private:
  void mark_live() {
    live_.assign(in_.nodes.size(), false);
    users_.assign(in_.nodes.size(), 0);
    for (const IrOutput& output : in_.outputs) {
      live_[output.node] = true;
      ++users_[output.node];
    }
    for (size_t i = in_.nodes.size(); i-- > 0;) {
      if (!live_[i]) continue;
      for (int input : in_.nodes[i].inputs) {
        live_[input] = true;
        ++users_[input];
      }
    }
  }

  const IrNode& at(int id) const { return out_.nodes[id]; }
  bool is_full(int id) const { return at(id).op == &ops::full_op; }
  // The constant that `id` is everywhere, seen through movement.
  std::optional<double> constant(int id) const { return is_full(id) ? std::optional(at(id).attrs.real) : std::nullopt; }

  int make(IrNode node) {
    node.keep = keep_;  // what a rule makes in a vertex's place is kept as that vertex is
    node.origin = origin_;
    if (std::optional<int> same = rewrite(node)) return *same;
    if (node.leaf >= 0) return out_.add(std::move(node));
    auto [entry, fresh] = known_.try_emplace(structure(node), 0);
    if (fresh) entry->second = out_.add(std::move(node));
    return entry->second;
  }

  int make_full(const Shape& shape, DType dtype, double value) {
    IrNode full{&ops::full_op, {}, {}, shape, dtype};
    full.attrs.real = rounded(value, dtype);
    return make(std::move(full));
  }

  std::optional<int> rewrite(IrNode& node) {
    switch (node.op->kind) {
      case OpKind::movement: return rewrite_movement(node);
      case OpKind::elementwise: return rewrite_elementwise(node);
      case OpKind::reduce: return rewrite_reduce(node);
      case OpKind::contraction: return rewrite_product(node);
      default: return std::nullopt;
    }
  }

  std::optional<int> rewrite_movement(IrNode& node) {
    const int x = node.inputs[0];
    if (is_view_op(*node.op) && is_full(x)) return make_full(node.shape, node.dtype, at(x).attrs.real);
    if (node.op == &ops::reshape_op || node.op == &ops::expand_op) {
      if (at(x).shape == node.shape) return x;
      if (at(x).op == node.op) {  // reshape of reshape, expand of expand
        node.inputs[0] = at(x).inputs[0];
        return make(node);
      }
      return std::nullopt;
    }
    if (node.op == &ops::permute_op) return rewrite_permute(node);
    if (node.op == &ops::slice_op && at(x).shape == node.shape && is_whole_slice(node)) return x;
    if (node.op == &ops::slice_op && at(x).op == &ops::pad_op) return slice_of_pad(node);
    if (node.op == &ops::slice_op && at(x).op == &ops::concat_op) return slice_of_part(node);
    if (node.op == &ops::pad_op && at(x).shape == node.shape) return x;
    if (node.op == &ops::concat_op && node.inputs.size() == 1) return x;
    if (node.op == &ops::concat_op) return concat_of_slices(node);
    return std::nullopt;
  }

  // A slice that lies within one part of a concat is a slice of that part.
  std::optional<int> slice_of_part(IrNode& node) {
    const IrNode& joined = at(node.inputs[0]);
    const int axis = static_cast<int>(joined.attrs.ints[0]), rank = node.shape.rank();
    if (node.shape.numel() == 0) return std::nullopt;
    const int64_t first = node.attrs.ints[axis], last = first + (node.shape[axis] - 1) * node.attrs.ints[rank + axis];
    int64_t start = 0;
    for (int part : joined.inputs) {
      const int64_t end = start + at(part).shape[axis];
      if (std::min(first, last) >= start && std::max(first, last) < end) {
        node.attrs.ints[axis] -= start;
        node.inputs[0] = part;
        return make(node);
      }
      start = end;
    }
    return std::nullopt;
  }

  // Neighbouring slices of one value, joined again, are one slice of it: a view.
  std::optional<int> concat_of_slices(const IrNode& node) {
    const int axis = static_cast<int>(node.attrs.ints[0]), rank = node.shape.rank();
    const IrNode& first = at(node.inputs[0]);
    if (first.op != &ops::slice_op) return std::nullopt;
    int64_t next = first.attrs.ints[axis];
    for (int part : node.inputs) {
      const IrNode& slice = at(part);
      if (slice.op != &ops::slice_op || slice.inputs[0] != first.inputs[0] || slice.attrs.ints[axis] != next) return std::nullopt;
      for (size_t i = 0; i < slice.attrs.ints.size(); ++i) {
        if (static_cast<int>(i) != axis && slice.attrs.ints[i] != first.attrs.ints[i]) return std::nullopt;
      }
      next += slice.shape[axis] * slice.attrs.ints[rank + axis];
    }
    return make({&ops::slice_op, first.attrs, {first.inputs[0]}, node.shape, node.dtype});
  }

  static bool is_whole_slice(const IrNode& node) {
    const int rank = node.shape.rank();
    for (int d = 0; d < rank; ++d) {
      if (node.attrs.ints[d] != 0 || (node.attrs.ints[rank + d] != 1 && node.shape[d] > 1)) return false;
    }
    return true;
  }

  // A slice that reads only what was padded, or only border: gradients of slices are pads, of which the next rule wants a slice again.
  std::optional<int> slice_of_pad(IrNode& node) {
    const IrNode pad = at(node.inputs[0]);
    const IrNode& inner = at(pad.inputs[0]);
    const int rank = node.shape.rank();
    bool inside = true;
    for (int d = 0; d < rank && node.shape.numel() > 0; ++d) {
      const int64_t first = node.attrs.ints[d] - pad.attrs.ints[d], last = first + node.attrs.ints[rank + d] * (node.shape[d] - 1);
      const int64_t low = std::min(first, last), high = std::max(first, last);
      if (high < 0 || low >= inner.shape[d]) return make_full(node.shape, node.dtype, pad.attrs.real);
      inside = inside && low >= 0 && high < inner.shape[d];
    }
    if (!inside) return std::nullopt;
    for (int d = 0; d < rank; ++d) node.attrs.ints[d] -= pad.attrs.ints[d];
    node.inputs[0] = pad.inputs[0];
    return make(node);
  }

  std::optional<int> rewrite_permute(IrNode& node) {
    const IrNode& x = at(node.inputs[0]);
    if (x.op == &ops::permute_op) {
      for (int64_t& axis : node.attrs.ints) axis = x.attrs.ints[axis];
      node.inputs[0] = x.inputs[0];
      return make(node);
    }
    if (x.op == &ops::matmul_op && users_of_[node.inputs[0]] == 1 && swaps_last_two(node)) return transpose_product(node);
    bool identity = true;
    for (size_t d = 0; d < node.attrs.ints.size(); ++d) identity = identity && node.attrs.ints[d] == static_cast<int64_t>(d);
    return identity ? std::optional(node.inputs[0]) : std::nullopt;
  }

  static bool swaps_last_two(const IrNode& node) {
    const std::vector<int64_t>& order = node.attrs.ints;
    const int64_t rank = static_cast<int64_t>(order.size());
    for (int64_t d = 0; d < rank - 2; ++d) {
      if (order[static_cast<size_t>(d)] != d) return false;
    }
    return order[static_cast<size_t>(rank - 2)] == rank - 1;
  }

  // (a b)^T = b^T a^T: the transposes become strides of the operands, and what follows can join the product's epilogue.
  int transpose_product(const IrNode& node) {
    const IrNode product = at(node.inputs[0]);
    const auto transposed = [&](int id) {
      Shape shape = at(id).shape;
      const int rank = shape.rank();
      const int64_t rows = shape[rank - 2], columns = shape[rank - 1];
      return make({&ops::permute_op, node.attrs, {id}, shape.with(rank - 2, columns).with(rank - 1, rows), at(id).dtype});
    };
    const int a = transposed(product.inputs[1]), b = transposed(product.inputs[0]);
    return make({&ops::matmul_op, {}, {a, b}, node.shape, node.dtype});
  }

  // Quantised operands: of (cast(q) s) b and a (cast(q) s), scales that are constant along the inner dimension are applied to the product. The product
  // then reads the bytes as they lie, and the scales join its epilogue.
  std::optional<int> rewrite_product(const IrNode& node) {
    for (const size_t side : {size_t{0}, size_t{1}}) {
      if (std::optional<int> scaled = scale_of_product(node, side)) return scaled;
    }
    return std::nullopt;
  }

  std::optional<int> scale_of_product(const IrNode& node, size_t side) {
    if (node.op != &ops::matmul_op || node.dtype != DType::f32) return std::nullopt;
    const int rank = node.shape.rank();
    int axis = side == 0 ? rank - 1 : rank - 2;  // the inner dimension
    const IrNode operand = at(node.inputs[side]);
    const bool turned = operand.op == &ops::permute_op;
    if (turned) axis = static_cast<int>(operand.attrs.ints[static_cast<size_t>(axis)]);
    const IrNode product = turned ? at(operand.inputs[0]) : operand;
    if (product.op != &ops::mul_op) return std::nullopt;
    const int q = is_dequantised(product.inputs[0]) ? 0 : 1;
    const int bytes = product.inputs[static_cast<size_t>(q)], scale = product.inputs[static_cast<size_t>(1 - q)];
    if (!is_dequantised(bytes)) return std::nullopt;
    const auto turn = [&](int id) {
      if (!turned) return id;
      Shape shape;
      for (const int64_t from : operand.attrs.ints) shape.push_back(at(id).shape[static_cast<int>(from)]);
      return make({&ops::permute_op, operand.attrs, {id}, shape, at(id).dtype});
    };
    int factor = -1;
    if (is_full(scale)) {
      factor = make_full(node.shape, node.dtype, at(scale).attrs.real);
    } else if (at(scale).op == &ops::expand_op && at(at(scale).inputs[0]).shape[axis] == 1) {
      factor = make({&ops::expand_op, {}, {turn(at(scale).inputs[0])}, node.shape, node.dtype});
    } else {
      return std::nullopt;
    }
    IrNode plain = node;
    plain.inputs[side] = turn(bytes);
    const int sums = make(std::move(plain));
    return make({&ops::mul_op, {}, {sums, factor}, node.shape, node.dtype});
  }

  bool is_dequantised(int id) const {
    if (at(id).op != &ops::cast_op || at(id).dtype != DType::f32) return false;
    const DType from = at(at(id).inputs[0]).dtype;
    return from == DType::i8 || from == DType::u8;
  }

  std::optional<int> rewrite_reduce(IrNode& node) {
    const IrNode& x = at(node.inputs[0]);
    const bool arg = node.op == &ops::argmax_op || node.op == &ops::argmin_op;
    if (node.op == &ops::sum_op && x.op == &ops::matmul_op) {
      if (const std::optional<int> product = sum_of_products(node)) return product;
    }
    const bool trivial = std::all_of(node.attrs.ints.begin(), node.attrs.ints.end(), [&](int64_t axis) { return x.shape[static_cast<int>(axis)] == 1; });
    if (!trivial) return std::nullopt;
    if (arg) return make_full(node.shape, node.dtype, 0);
    return make({&ops::reshape_op, {}, {node.inputs[0]}, node.shape, node.dtype});
  }

  // The sum over all batches of a[i]^T b[i], a weight's gradient, is one product over what the batches hold together.
  std::optional<int> sum_of_products(const IrNode& node) {
    const IrNode product = at(node.inputs[0]);
    const int rank = product.shape.rank();
    if (rank < 3 || node.attrs.ints.size() != static_cast<size_t>(rank - 2) || node.attrs.ints.back() != rank - 3 || !is_float(node.dtype)) return std::nullopt;
    const IrNode left = at(product.inputs[0]), right = at(product.inputs[1]);
    if (left.op != &ops::permute_op || !swaps_last_two(left) || right.op == &ops::permute_op || right.op == &ops::expand_op) return std::nullopt;
    const int64_t rows = left.shape[rank - 2], columns = right.shape[rank - 1], inner = right.shape.numel() / std::max<int64_t>(1, columns);
    const int a = make({&ops::reshape_op, {}, {left.inputs[0]}, Shape{inner, rows}, left.dtype});
    const int b = make({&ops::reshape_op, {}, {product.inputs[1]}, Shape{inner, columns}, right.dtype});
    const int turned = make({&ops::permute_op, Attrs{{1, 0}}, {a}, Shape{rows, inner}, left.dtype});
    return make({&ops::matmul_op, {}, {turned, b}, node.shape, node.dtype});
  }

  std::optional<int> rewrite_elementwise(IrNode& node) {
    if (node.op == &ops::stop_gradient_op) return node.inputs[0];
    if (node.op == &ops::cast_op) {
      if (at(node.inputs[0]).dtype == node.dtype) return node.inputs[0];
      if (is_full(node.inputs[0])) return make_full(node.shape, node.dtype, at(node.inputs[0]).attrs.real);
      return std::nullopt;
    }
    if (node.op == &ops::where_op) {
      const std::optional<double> c = constant(node.inputs[0]);
      if (node.inputs[1] == node.inputs[2]) return node.inputs[1];
      return c ? std::optional(node.inputs[*c != 0 ? 1 : 2]) : std::nullopt;
    }
    if (std::optional<int> folded = fold(node)) return folded;
    return identity(node);
  }

  // All inputs constant: compute on the host.
  std::optional<int> fold(const IrNode& node) {
    double v[3] = {0, 0, 0};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<double> c = constant(node.inputs[i]);
      if (!c) return std::nullopt;
      v[i] = *c;
    }
    const DType in = node.inputs.empty() ? node.dtype : at(node.inputs[0]).dtype;
    if (is_float(in)) return node.op->host_float ? std::optional(make_full(node.shape, node.dtype, node.op->host_float(v[0], v[1], v[2]))) : std::nullopt;
    constexpr double exact = 9007199254740992.0;  // 2^53: beyond it a double does not hold the integer
    if (!node.op->host_int || std::abs(v[0]) > exact || std::abs(v[1]) > exact) return std::nullopt;
    const int64_t value = node.op->host_int(static_cast<int64_t>(v[0]), static_cast<int64_t>(v[1]), static_cast<int64_t>(v[2]));
    if (std::abs(static_cast<double>(value)) > exact) return std::nullopt;
    return make_full(node.shape, node.dtype, static_cast<double>(value));
  }

  std::optional<int> identity(IrNode& node) {
    if (node.inputs.size() != 2) return std::nullopt;
    const int x = node.inputs[0], y = node.inputs[1];
    const std::optional<double> cx = constant(x), cy = constant(y);
    const auto is = [](const std::optional<double>& c, double value) { return c && *c == value; };
    // x + 0 keeps x except for -0 + 0 = 0; adding -0 is exact, so only the sign of a zero can differ.
    if (node.op == &ops::add_op) return is(cy, 0) ? std::optional(x) : is(cx, 0) ? std::optional(y) : std::nullopt;
    if (node.op == &ops::sub_op && is(cy, 0)) return x;
    if (node.op == &ops::mul_op) return is(cy, 1) ? std::optional(x) : is(cx, 1) ? std::optional(y) : std::nullopt;
    if (node.op == &ops::div_op) {
      if (is(cy, 1)) return x;
      // x / 0 is x * inf in every case; drivers take liberties with a literal zero divisor (llvmpipe stores garbage).
      if (is(cy, 0)) {
        const double infinity = std::copysign(std::numeric_limits<double>::infinity(), *cy);
        return make({&ops::mul_op, {}, {x, make_full(node.shape, node.dtype, infinity)}, node.shape, node.dtype});
      }
      // Division by a power of two is a multiplication, exactly.
      int exponent = 0;
      if (cy && *cy != 0 && std::abs(std::frexp(*cy, &exponent)) == 0.5 && std::abs(exponent) < 64 && rounded(1 / *cy, node.dtype) == 1 / *cy) {
        return make({&ops::mul_op, {}, {x, make_full(node.shape, node.dtype, 1 / *cy)}, node.shape, node.dtype});
      }
      return std::nullopt;
    }
    if (node.op == &ops::pow_op) {
      if (is(cy, 1)) return x;
      if (is(cy, 2)) return make({&ops::mul_op, {}, {x, x}, node.shape, node.dtype});
      if (is(cy, 0.5)) return std::nullopt;  // pow(-0, 0.5) and pow(-inf, 0.5) differ from sqrt
    }
    return std::nullopt;
  }

  const Graph& in_;
  Graph out_;
  std::vector<bool> live_;
  std::vector<int> users_;           // of the vertices of in_
  std::map<int, int> users_of_;      // of the vertices of out_, by what became of theirs
  std::map<std::vector<uint64_t>, int> known_;
  Keep keep_ = Keep::plain;  // of the vertex being rebuilt
  int origin_ = -1;
};

}  // namespace

Graph simplify(const Graph& graph) { return Simplifier(graph).run(); }

}  // namespace heddle
