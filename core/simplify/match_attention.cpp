// Attention that was written out becomes the attention row: no matrix of scores in memory.
#include <algorithm>

#include "heddle/core/functions/nn/attention_kernel.h"
#include "heddle/core/functions/nn/attention_pattern.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/simplify/make_vertices.h"
#include "heddle/core/simplify/patterns.h"

namespace heddle {
namespace {

struct Vertices {
  using Id = int;
  const Graph& graph;
  const IrNode& at(int id) const { return graph.nodes[static_cast<size_t>(id)]; }
  const OpDef* op(int id) const { return at(id).op; }
  int input(int id, size_t n) const { return at(id).inputs[n]; }
  const Attrs& attrs(int id) const { return at(id).attrs; }
  const Shape& shape(int id) const { return at(id).shape; }
  DType dtype(int id) const { return at(id).dtype; }
};

class Builder {
 public:
  Builder(const PatternSite& site, const AttentionTerms<int>& terms) : site_(site), out_(site.out), terms_(terms) {}

  // -1 when the device has no kernel for it; the vertices made so far are then dead.
  int build() {
    const int q = operand(terms_.queries), k = in_four(transposed(terms_.keys)), v = operand(terms_.values);
    IrNode packed{&ops::attention_op, {}, {q, k, v}, {}, out_.nodes[static_cast<size_t>(q)].dtype};
    const int b = bias();
    if (b >= 0) packed.inputs.push_back(b);
    AttentionAttrs attrs;
    attrs.causal = terms_.causal;
    attrs.bias = b >= 0;
    attrs.scale = terms_.scale;
    packed.attrs = attrs.packed();
    std::vector<Shape> shapes;
    for (const int input : packed.inputs) shapes.push_back(out_.nodes[static_cast<size_t>(input)].shape);
    const AttentionProblem p = attention_problem(packed.attrs, shapes, packed.dtype);
    packed.shape = Shape{p.results() + p.logarithms()};
    if (!attention_takes(*packed.op, packed.shape, p, packed.dtype, site_.caps)) return -1;
    const int made = out_.add(std::move(packed));
    const int result = rewrite::reshape(out_, rewrite::slice(out_, made, 0, 0, p.results()),
                                        Shape{p.batch, p.queries, p.heads, p.value_size});
    return rewrite::cast(out_, rewrite::reshape(out_, rewrite::permute(out_, result, {0, 2, 1, 3}), site_.node().shape),
                         site_.node().dtype);
  }

 private:
  const Shape& shape_of(int made) const { return out_.nodes[static_cast<size_t>(made)].shape; }
  int operand(int id) { return in_four(site_.to[static_cast<size_t>(id)]); }

  int transposed(int id) {
    const int made = site_.to[static_cast<size_t>(id)], rank = shape_of(made).rank();
    std::vector<int64_t> order;
    for (int d = 0; d < rank; ++d) order.push_back(d < rank - 2 ? d : 2 * rank - 3 - d);
    return rewrite::permute(out_, made, order);
  }

  // (..., x, y) as (B, H, x, y).
  int in_four(int made) { return rewrite::reshape(out_, made, shape_in_four(shape_of(made), terms_.rank)); }

  // All that is added to the scores, as one vertex; -1: nothing.
  int bias() {
    int sum = -1;
    for (const int id : terms_.added) sum = plus(sum, operand(id));
    for (const auto& hidden : terms_.hidden) {
      const int condition = operand(hidden.condition);
      const Shape shape = shape_of(condition);
      const int keep = rewrite::full(out_, shape, DType::f32, 0),
                hide = rewrite::full(out_, shape, DType::f32, hidden.fill);
      sum = plus(sum, out_.add({&ops::where_op,
                                {},
                                {condition, hidden.keep ? keep : hide, hidden.keep ? hide : keep},
                                shape,
                                DType::f32}));
    }
    return sum;
  }

  int plus(int a, int b) {
    if (a < 0) return b;
    Shape shape = shape_of(a);
    for (int d = 0; d < 4; ++d) shape = shape.with(d, std::max(shape[d], shape_of(b)[d]));
    const DType t = promote(out_.nodes[static_cast<size_t>(a)].dtype, out_.nodes[static_cast<size_t>(b)].dtype);
    return rewrite::binary(out_, ops::add_op, rewrite::expand(out_, rewrite::cast(out_, a, t), shape),
                           rewrite::expand(out_, rewrite::cast(out_, b, t), shape));
  }

  const PatternSite& site_;
  Graph& out_;
  const AttentionTerms<int>& terms_;
};

}  // namespace

int match_attention(const PatternSite& site) {
  if (site.node().op != &ops::matmul_op) return -1;
  const Vertices vertices{site.graph};
  const std::optional<AttentionTerms<int>> terms = AttentionFinder(vertices).find(site.id);
  if (!terms || !site.readers.only_for(terms->inside, site.id)) return -1;
  return Builder(site, *terms).build();
}

}  // namespace heddle
