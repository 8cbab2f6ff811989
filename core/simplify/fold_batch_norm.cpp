// Inference: scales and shifts of channels behind a convolution, or of columns behind a product, become part of its
// weights and a bias:
//   (conv(x, w) - mean) * rsqrt(var + eps) * gamma + beta  ->  conv(x, w s) + t.
// The new weights and bias are marked to be computed once (core/simplify/precomputed.h): a graph that repeats does not
// fold again.
#include <algorithm>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/make_vertices.h"
#include "heddle/core/simplify/patterns.h"

namespace heddle {
namespace {

class Fold {
 public:
  explicit Fold(const PatternSite& site) : site_(site), out_(site.out) {}

  int run() {
    if (!is_affine(site_.id) || continues()) return -1;
    int id = site_.id;
    std::vector<int> chain;  // from the last to the first
    while (is_affine(id)) {
      chain.push_back(id);
      id = site_.at(id).inputs[value_side(id)];
      if (site_.readers.of(id).size() != 1 || site_.readers.is_output(id)) return -1;
    }
    if (!set_anchor(id) || !scales(chain)) return -1;
    for (const int link : chain) {
      const int term = term_of(link);
      if (term < 0 || !is_stored_value(term, 16)) return -1;
    }
    if (!is_stored_value(weight(), 4) || is_quantised(weight())) return -1;
    return build(chain);
  }

 private:
  // A step with one operand that is a number, or spread from a value a channel.
  bool is_affine(int id) const {
    const IrNode& node = site_.at(id);
    const bool known =
        node.op == &ops::add_op || node.op == &ops::sub_op || node.op == &ops::mul_op || node.op == &ops::div_op;
    return known && node.dtype == DType::f32 &&
           (is_term(node.inputs[1]) || (node.op != &ops::div_op && is_term(node.inputs[0])));
  }
  bool is_term(int id) const {
    const IrNode& node = site_.at(id);
    if (node.op == &ops::full_op) return true;
    if (node.op != &ops::expand_op) return false;
    const Shape& shape = site_.at(node.inputs[0]).shape;
    int wide = 0;
    for (const int64_t d : shape) wide += d != 1;
    return wide <= 1;
  }
  size_t value_side(int id) const { return is_term(site_.at(id).inputs[1]) ? 0 : 1; }
  int term_of(int id) const {
    const int term = site_.at(id).inputs[1 - value_side(id)];
    if (site_.at(term).op == &ops::full_op) return term;
    // Only what varies along the channels alone.
    const Shape& shape = site_.at(site_.at(term).inputs[0]).shape;
    for (int d = 0; d < shape.rank(); ++d) {
      if (d != axis_ && shape[d] != 1) return -1;
    }
    return site_.at(term).inputs[0];
  }
  // The only reader goes on with the chain: the pattern is found there.
  bool continues() const {
    const std::vector<int>& readers = site_.readers.of(site_.id);
    return readers.size() == 1 && !site_.readers.is_output(site_.id) && is_affine(readers[0]) &&
           site_.at(readers[0]).inputs[value_side(readers[0])] == site_.id;
  }
  bool scales(const std::vector<int>& chain) const {
    return std::any_of(chain.begin(), chain.end(), [&](int id) {
      const OpDef* op = site_.at(id).op;
      return (op == &ops::mul_op || op == &ops::div_op) &&
             site_.at(site_.at(id).inputs[1 - value_side(id)]).op != &ops::full_op;
    });
  }

  bool set_anchor(int id) {
    anchor_ = id;
    const IrNode& node = site_.at(id);
    const int rank = node.shape.rank();
    if (node.op == &ops::conv_op)
      axis_ = ConvAttrs(node.attrs).channels_last ? rank - 1 : 1;
    else if (node.op == &ops::matmul_op && rank == 2)
      axis_ = 1;
    else
      return false;
    return node.dtype == DType::f32 && site_.at(node.inputs[1]).dtype == DType::f32;
  }
  int weight() const { return site_.at(anchor_).inputs[1]; }

  // Computed in a few steps from stored tensors alone: parameters and running statistics, not what a batch gives.
  bool is_stored_value(int id, int depth) const {
    const IrNode& node = site_.at(id);
    if (node.leaf >= 0) {
      const int slot = site_.graph.leaves[static_cast<size_t>(node.leaf)].slot;
      return slot >= 0 && std::none_of(site_.graph.outputs.begin(), site_.graph.outputs.end(),
                                       [&](const IrOutput& output) { return output.assign_slot == slot; });
    }
    if (node.op->kind == OpKind::constant) return true;
    if (depth == 0 || (node.op->kind != OpKind::elementwise && node.op->kind != OpKind::movement)) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](int input) { return is_stored_value(input, depth - 1); });
  }

  // Weights of fewer bits stay as they are: the product reads them so, and a copy in f32 would take the memory that
  // they save.
  bool is_quantised(int id) const {
    const IrNode& node = site_.at(id);
    if (node.op == &ops::cast_op) return true;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](int input) { return is_quantised(input); });
  }

  // ---- y = anchor * scale + shift, as two vertices of one value a channel
  int channels(int term) {
    const int made = site_.to[static_cast<size_t>(term)];
    if (site_.at(term).op == &ops::full_op)
      return rewrite::full(out_, per_channel_, DType::f32, site_.at(term).attrs.real);
    return rewrite::expand(out_, made, per_channel_);
  }
  int binary(const OpDef& op, int x, int y) { return rewrite::binary(out_, op, x, y); }

  void follow(int id) {
    const IrNode& node = site_.at(id);
    const int term = channels(term_of(id));
    if (node.op == &ops::mul_op || node.op == &ops::div_op) {
      scale_ = binary(*node.op, scale_, term);
      shift_ = binary(*node.op, shift_, term);
    } else if (node.op == &ops::sub_op && value_side(id) == 1) {
      scale_ = out_.add({&ops::neg_op, {}, {scale_}, per_channel_, DType::f32});
      shift_ = binary(ops::sub_op, term, shift_);
    } else {
      shift_ = binary(*node.op, shift_, term);
    }
  }

  int build(const std::vector<int>& chain) {
    const IrNode anchor = site_.at(anchor_);
    per_channel_ = anchor.shape;
    for (int d = 0; d < per_channel_.rank(); ++d) per_channel_ = per_channel_.with(d, d == axis_ ? anchor.shape[d] : 1);
    scale_ = rewrite::full(out_, per_channel_, DType::f32, 1);
    shift_ = rewrite::full(out_, per_channel_, DType::f32, 0);
    for (auto link = chain.rbegin(); link != chain.rend(); ++link) follow(*link);
    IrNode folded = anchor;
    folded.inputs = {site_.to[static_cast<size_t>(anchor.inputs[0])], scaled_weight()};
    const int product = out_.add(std::move(folded));
    const int shift = once(rewrite::reshape(out_, shift_, Shape{anchor.shape[axis_]}));
    const int bias = rewrite::expand(out_, rewrite::reshape(out_, shift, per_channel_), anchor.shape);
    return binary(ops::add_op, product, bias);
  }

  // The weights of a product stay as they lie: its right operand is usually a transposed view.
  int scaled_weight() {
    const IrNode& node = site_.at(weight());
    const bool turned =
        node.op == &ops::permute_op && node.shape.rank() == 2 && order_of(node.attrs) == std::vector<int64_t>{1, 0};
    const int made = site_.to[static_cast<size_t>(turned ? node.inputs[0] : weight())];
    const Shape shape = out_.nodes[static_cast<size_t>(made)].shape;
    const bool columns = site_.at(anchor_).op == &ops::matmul_op && !turned;  // channels come last
    Shape one = shape;
    for (int d = 0; d < shape.rank(); ++d) one = one.with(d, d == (columns ? shape.rank() - 1 : 0) ? shape[d] : 1);
    const int spread = rewrite::expand(out_, rewrite::reshape(out_, scale_, one), shape);
    const int product = once(binary(ops::mul_op, made, spread));
    return turned ? rewrite::permute(out_, product, {1, 0}) : product;
  }

  int once(int made) {
    // A view is none: what is computed is marked.
    int id = made;
    while (out_.nodes[static_cast<size_t>(id)].op == &ops::reshape_op)
      id = out_.nodes[static_cast<size_t>(id)].inputs[0];
    out_.nodes[static_cast<size_t>(id)].once = out_.nodes[static_cast<size_t>(id)].op->kind == OpKind::elementwise;
    return made;
  }

  const PatternSite& site_;
  Graph& out_;
  int anchor_ = -1, axis_ = -1, scale_ = -1, shift_ = -1;
  Shape per_channel_;
};

}  // namespace

int fold_batch_norm(const PatternSite& site) {
  return site.node().op->kind == OpKind::elementwise ? Fold(site).run() : -1;
}

}  // namespace heddle
