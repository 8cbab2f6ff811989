// Decoding: few queries over many keys. Query heads that share a key head become rows of one problem, and the keys are
// cut into ranges that are computed side by side; each gives its own softmax, with the logarithm of its sum, and those
// are joined in the order of the keys.
#include <limits>
#include <map>

#include "heddle/core/functions/nn/attention_kernel.h"
#include "heddle/core/ir/attention_vertex.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/make_vertices.h"
#include "heddle/core/specialise/rewrites.h"

namespace heddle {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class Builder {
 public:
  Builder(Graph& out, const IrNode& node, const Caps& caps)
      : p_(attention_problem(out, node)),
        out_(out),
        node_(node),
        caps_(caps),
        sizes_(attention_sizes(p_, out.nodes[node.inputs[0]].dtype)) {}

  int build() {
    if (stack_attention_heads(caps_, sizes_)) return stacked();
    const IrNode &q = out_.nodes[node_.inputs[0]], &k = out_.nodes[node_.inputs[1]];
    const bool varies = ((q.varies | k.varies) & varies::dimensions) != 0;
    const int64_t splits = varies ? least_attention_splits(caps_, nominal_sizes(out_, node_, sizes_), sizes_.keys)
                                  : pick_attention_splits(caps_, sizes_);
    return splits < 2 ? -1 : split(splits);
  }

 private:
  // (B, J G, 1, D) as (B, J, G, D): one query sees all keys, causal or not.
  int stacked() {
    IrNode inner = node_;
    AttentionAttrs attrs(node_.attrs);
    attrs.causal = false;
    inner.attrs = attrs.packed();
    inner.varies = varies::unknown;
    inner.inputs[0] = rewrite::reshape(out_, node_.inputs[0], Shape{p_.batch, p_.key_heads, p_.group(), p_.size});
    const int replaced = Builder(out_, inner, caps_).build();
    const int packed = replaced >= 0 ? replaced : out_.add(std::move(inner));
    if (p_.key_heads == 1) return packed;
    int result = rewrite::reshape(out_, rewrite::slice(out_, packed, 0, 0, p_.results()),
                                  Shape{p_.batch, p_.group(), p_.key_heads, p_.value_size});
    result = rewrite::reshape(out_, permute(result, {0, 2, 1, 3}), Shape{p_.results()});
    return joined(result, rewrite::slice(out_, packed, 0, p_.results(), p_.logarithms()));
  }

  int split(int64_t splits) {
    const int64_t rows = p_.batch * p_.heads * p_.queries;
    IrNode partial = node_;
    AttentionAttrs attrs(node_.attrs);
    attrs.splits = splits;
    partial.attrs = attrs.packed();
    partial.shape = Shape{splits * (p_.results() + rows)};
    partial.varies = varies::unknown;
    partial.dtype = DType::f32;
    const int parts = out_.add(std::move(partial));
    const Shape heads{p_.batch, p_.queries, p_.heads};
    // The logarithms of a row side by side: (B, M, H, splits).
    int logarithms = rewrite::reshape(out_, rewrite::slice(out_, parts, 0, splits * p_.results(), splits * rows),
                                      Shape{splits, p_.batch, p_.heads, p_.queries});
    logarithms = permute(logarithms, {1, 3, 2, 0});
    const Shape all = out_.nodes[logarithms].shape;
    // Ranges without keys say +infinity.
    const int known = where(is(logarithms, infinity), constant(all, -infinity), logarithms);
    const int top = rewrite::reduce(out_, ops::max_op, known, {3});
    const int shift = where(is(top, -infinity), constant(heads, 0), top);
    const int terms = unary(ops::exp_op, rewrite::binary(out_, ops::sub_op, known, spread(shift, all)));
    const int total = rewrite::reduce(out_, ops::sum_op, terms, {3});
    const int none = is(total, 0);
    const int weights = rewrite::binary(out_, ops::div_op, terms, spread(where(none, constant(heads, 1), total), all));
    const int logarithm =
        where(none, constant(heads, infinity), rewrite::binary(out_, ops::add_op, shift, unary(ops::log_op, total)));
    return joined(weighted(parts, weights, splits), stored(permute(logarithm, {0, 2, 1})));
  }

  // The ranges' results (splits, B, M, H, E), each times its weight, added in order: (B M H E).
  int weighted(int parts, int weights, int64_t splits) {
    const Shape all{splits, p_.batch, p_.queries, p_.heads, p_.value_size};
    const int results = rewrite::reshape(out_, rewrite::slice(out_, parts, 0, 0, splits * p_.results()), all);
    const int factors =
        rewrite::expand(out_, rewrite::reshape(out_, permute(weights, {3, 0, 1, 2}), all.with(4, 1)), all);
    const int sum = rewrite::reduce(out_, ops::sum_op, rewrite::binary(out_, ops::mul_op, results, factors), {0});
    return rewrite::cast(out_, rewrite::reshape(out_, sum, Shape{p_.results()}), node_.dtype);
  }

  // Logarithms as attention.h says: in half precision as three parts of a 64th.
  int stored(int logarithm) {
    if (p_.parts == 1) return rewrite::reshape(out_, logarithm, Shape{p_.logarithms()});
    const Shape shape = out_.nodes[logarithm].shape, column{shape.numel(), 1};
    int rest = rewrite::binary(out_, ops::mul_op, logarithm, constant(shape, 0.015625));
    IrNode pieces{&ops::concat_op, axis_attrs(1), {}, Shape{shape.numel(), p_.parts}, node_.dtype};
    for (int i = 0; i < p_.parts; ++i) {
      const int piece = rewrite::cast(out_, rest, node_.dtype);
      pieces.inputs.push_back(rewrite::reshape(out_, piece, column));
      const int kept = rewrite::cast(out_, piece, DType::f32);
      rest = where(out_.add({&ops::isinf_op, {}, {kept}, shape, DType::boolean}), constant(shape, 0),
                   rewrite::binary(out_, ops::sub_op, rest, kept));
    }
    return rewrite::reshape(out_, out_.add(std::move(pieces)), Shape{p_.logarithms()});
  }

  int joined(int results, int logarithms) {
    return out_.add({&ops::concat_op, axis_attrs(0), {results, logarithms}, node_.shape, node_.dtype});
  }
  int constant(const Shape& shape, double value) { return rewrite::full(out_, shape, DType::f32, value); }
  int unary(const OpDef& op, int x) { return out_.add({&op, {}, {x}, out_.nodes[x].shape, out_.nodes[x].dtype}); }
  int is(int x, double value) { return rewrite::binary(out_, ops::eq_op, x, constant(out_.nodes[x].shape, value)); }
  int where(int condition, int x, int y) {
    return out_.add({&ops::where_op, {}, {condition, x, y}, out_.nodes[x].shape, out_.nodes[x].dtype});
  }
  int spread(int x, const Shape& shape) {
    return rewrite::expand(out_, rewrite::reshape(out_, x, shape.with(3, 1)), shape);
  }
  int permute(int x, const std::vector<int64_t>& order) {
    const Shape from = out_.nodes[x].shape;
    Shape shape;
    for (const int64_t axis : order) shape.push_back(from[static_cast<int>(axis)]);
    return out_.add({&ops::permute_op, Attrs{order}, {x}, shape, out_.nodes[x].dtype});
  }

  AttentionProblem p_;
  Graph& out_;
  const IrNode& node_;
  const Caps& caps_;
  AttentionSizes sizes_;
};

}  // namespace

int split_attention(Graph& out, const IrNode& node, const Caps& caps) {
  if (node.op != &ops::attention_op || AttentionAttrs(node.attrs).splits != 1) return -1;
  return Builder(out, node, caps).build();
}

AttentionPairs::AttentionPairs(const Graph& graph, const Caps& caps) : pair_(graph.nodes.size(), -1) {
  std::map<std::vector<int>, std::pair<int, int>> found;  // by inputs: of the queries, of keys and values
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const IrNode& node = graph.nodes[i];
    const bool queries = node.op == &ops::attention_query_gradient_op;
    if (!queries && node.op != &ops::attention_key_gradient_op) continue;
    auto& both = found.try_emplace(node.inputs, -1, -1).first->second;
    (queries ? both.first : both.second) = static_cast<int>(i);
    if (both.first < 0 || both.second < 0 || graph.nodes[both.first].attrs != graph.nodes[both.second].attrs) continue;
    const DType t = graph.nodes[node.inputs[0]].dtype;
    if (!attention_gradients_at_once(caps,
                                     nominal_sizes(graph, node, attention_sizes(attention_problem(graph, node), t))))
      continue;
    pair_[static_cast<size_t>(both.first)] = pair_[static_cast<size_t>(both.second)] = static_cast<int>(packed_.size());
    packed_.push_back(-1);
  }
}

int AttentionPairs::replace(Graph& out, size_t id, const IrNode& node) {
  if (pair_[id] < 0) return -1;
  const AttentionProblem p = attention_problem(out, node);
  const int64_t keys = p.batch * p.keys * p.key_heads * (p.size + p.value_size),
                queries = p.batch * p.queries * p.heads * p.size;
  int& packed = packed_[static_cast<size_t>(pair_[id])];
  if (packed < 0) {
    IrNode all = node;
    all.op = &attention_gradients_op;
    all.shape = Shape{keys + queries};
    all.varies = varies::unknown;
    all.dtype = DType::f32;
    packed = out.add(std::move(all));
  }
  const bool first = node.op == &ops::attention_key_gradient_op;
  const int part = rewrite::slice(out, packed, 0, first ? 0 : keys, first ? keys : queries);
  return rewrite::cast(out, rewrite::reshape(out, part, node.shape), node.dtype);
}

}  // namespace heddle
