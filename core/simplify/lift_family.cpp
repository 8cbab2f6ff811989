// How each kind of operation is computed of all parts at once: as more rows of the whole batch where it works row by
// row, else with the parts as an axis in front.
#include <algorithm>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/join_parts.h"
#include "heddle/core/simplify/make_vertices.h"

namespace heddle {
namespace {

int64_t parts_of(const Family& family) { return static_cast<int64_t>(family.members.size()); }

std::vector<int64_t> behind_parts(const std::vector<int64_t>& axes) {
  std::vector<int64_t> moved;
  for (const int64_t axis : axes) moved.push_back(axis + 1);
  return moved;
}

// Whether row i of the result, along the first axis, comes from row i of what is read.
bool works_by_rows(const IrNode& node, const Shape& from) {
  if (node.shape.rank() == 0 || from.rank() == 0 || node.shape[0] != from[0]) return false;
  switch (node.op->kind) {
    case OpKind::elementwise:
      return true;
    case OpKind::constant:
      return node.op != &ops::iota_op || axis_of(node.attrs) != 0;
    case OpKind::reduce:
      return !names_axis(node.attrs, 0);
    case OpKind::contraction:
      return node.shape.rank() > 2;  // the first axis is one of batches
    case OpKind::index:
      return node.op == &ops::gather_op && axis_of(node.attrs) != 0;
    default:
      break;
  }
  if (node.op == &ops::permute_op) return order_of(node.attrs)[0] == 0;
  if (node.op == &ops::slice_op) return SliceAttrs(node.attrs).start[0] == 0 && SliceAttrs(node.attrs).step[0] == 1;
  if (node.op == &ops::pad_op) return border_of(node.attrs)[0] == 0;
  return node.op == &ops::reshape_op || node.op == &ops::expand_op || !names_axis(node.attrs, 0);  // flip, concat
}

}  // namespace

int FamilyLifter::join(Family& family) {
  switch (family.kind) {
    case Family::Kind::lying:
      return lying(family);
    case Family::Kind::drawn:
      return drawn(family);
    case Family::Kind::lifted:
      return lifted(family);
    case Family::Kind::none:
      break;
  }
  return -1;
}

int FamilyLifter::parts(const Family& family) {
  return rewrite::reshape(out_, family.joined, first(family).shape.inserted(0, parts_of(family)));
}

int FamilyLifter::rows(const Family& family) {
  const Shape& part = first(family).shape;
  return rewrite::reshape(out_, family.joined, part.with(0, part[0] * parts_of(family)));
}

int FamilyLifter::member(const Family& family, size_t part) {
  const Shape& shape = first(family).shape;
  if (family.rows) return rewrite::slice(out_, family.joined, 0, static_cast<int64_t>(part) * shape[0], shape[0]);
  return rewrite::reshape(out_, rewrite::slice(out_, family.joined, 0, static_cast<int64_t>(part), 1), shape);
}

// Operand n with the parts as an axis in front.
int FamilyLifter::beside(const Family& family, size_t n) {
  if (is_family(family, n)) return parts(operand_family(family, n));
  const int made = shared(family, n);
  const Shape shape = shape_of(made);
  return rewrite::expand(out_, rewrite::reshape(out_, made, shape.inserted(0, 1)), shape.inserted(0, parts_of(family)));
}

// What is the same in all rows, with `count` times as many of them; -1 for other vertices.
int FamilyLifter::taller(int id, int64_t count) {
  IrNode node = in_.nodes[static_cast<size_t>(id)];
  if (node.shape.rank() == 0) return -1;
  const bool repeats = node.op == &ops::expand_op && in_.nodes[static_cast<size_t>(node.inputs[0])].shape[0] == 1;
  if (!repeats && (node.op->kind != OpKind::constant || !works_by_rows(node, node.shape))) return -1;
  for (int& input : node.inputs) input = to_[static_cast<size_t>(input)];
  node.shape = node.shape.with(0, node.shape[0] * count);
  node.varies = varies::unknown;
  return out_.add(std::move(node));
}

int FamilyLifter::lying(Family& family) {
  const IrNode& part = first(family);
  const Shape shape = part.shape.inserted(0, parts_of(family));
  if (part.leaf < 0) {
    const int whole = to_[static_cast<size_t>(part.inputs[0])];
    int axis = 0;
    while (shape_of(whole)[axis] == part.shape[axis]) ++axis;
    family.rows = axis == 0;
    if (axis == 0) return whole;
    std::vector<int64_t> order{axis};
    for (int d = 0; d <= part.shape.rank(); ++d) {
      if (d != axis) order.push_back(d);
    }
    return rewrite::permute(out_, rewrite::reshape(out_, whole, part.shape.inserted(axis, parts_of(family))), order);
  }
  const auto view_of = [&](size_t n) -> const View& {
    return in_.leaves[static_cast<size_t>(in_.nodes[static_cast<size_t>(family.members[n])].leaf)].view;
  };
  LeafInfo leaf = in_.leaves[static_cast<size_t>(part.leaf)];
  const View one = leaf.view;
  leaf.view.shape = shape;
  leaf.view.strides[0] = view_of(1).offset - one.offset;
  for (int d = 0; d < one.shape.rank(); ++d)
    leaf.view.strides[static_cast<size_t>(d) + 1] = one.strides[static_cast<size_t>(d)];
  family.rows = one.shape.rank() > 0 && leaf.view.strides[0] == one.shape[0] * one.strides[0];
  if (family.rows) leaf.view = *leaf.view.reshape(part.shape.with(0, parts_of(family) * part.shape[0]));
  IrNode node{&ops::leaf_op, {}, {}, leaf.view.shape, part.dtype, static_cast<int>(out_.leaves.size())};
  out_.leaves.push_back(leaf);
  // Sizes that vary (core/ir/dynamic_sizes.h) move behind the parts, and with them the distance of the parts.
  const auto dimensions = static_cast<uint16_t>(part.varies & varies::dimensions);
  node.varies = family.rows ? part.varies
                            : static_cast<uint16_t>((part.varies & ~varies::dimensions) | (dimensions << 1) |
                                                    (dimensions != 0 ? varies::numbers : 0));
  return out_.add(std::move(node));
}

int FamilyLifter::drawn(Family& family) {
  const IrNode& part = first(family);
  if (part.shape.rank() == 0) return -1;
  family.rows = true;
  IrNode all{&ops::concat_op, axis_attrs(0), {}, part.shape.with(0, part.shape[0] * parts_of(family)), part.dtype};
  for (const int id : family.members) {
    IrNode node = in_.nodes[static_cast<size_t>(id)];
    for (int& input : node.inputs) input = to_[static_cast<size_t>(input)];
    all.inputs.push_back(out_.add(std::move(node)));
  }
  return out_.add(std::move(all));
}

bool FamilyLifter::reads_joined(const Family& family) const {
  for (const Family::Operand& operand : family.operands) {
    if (operand.family >= 0 && families_[static_cast<size_t>(operand.family)].joined < 0) return false;
  }
  return family.kind == Family::Kind::lifted;
}

int FamilyLifter::lifted(Family& family) {
  if (!reads_joined(family)) return -1;
  const OpKind kind = first(family).op->kind;
  if (kind == OpKind::body) return convolved(family);
  if (kind == OpKind::effect || kind == OpKind::fused || kind == OpKind::collective) return -1;
  const size_t before = out_.nodes.size();
  const int made = by_rows(family);
  family.rows = made >= 0;
  if (family.rows) return made;
  out_.nodes.resize(before);
  return kind == OpKind::contraction ? product(family) : by_parts(family);
}

// As the vertex of the whole batch; -1 where a row of it is not one of a part.
int FamilyLifter::by_rows(const Family& family) {
  IrNode node = first(family);
  if (node.inputs.empty() && !works_by_rows(node, node.shape)) return -1;
  // Rows of one table by the indices of all parts.
  const bool picks =
      node.op == &ops::take_op && !is_family(family, 0) && axis_of(node.attrs) == 0 && operand_family(family, 1).rows;
  for (size_t n = 0; n < node.inputs.size(); ++n) {
    const int id = node.inputs[n];
    if (picks) {
      node.inputs[n] = n == 0 ? shared(family, 0) : operand_family(family, 1).joined;
      continue;
    }
    if (!works_by_rows(first(family), in_.nodes[static_cast<size_t>(id)].shape)) return -1;
    if (is_family(family, n) && !operand_family(family, n).rows) return -1;
    node.inputs[n] = is_family(family, n) ? operand_family(family, n).joined : taller(id, parts_of(family));
    if (node.inputs[n] < 0) return -1;
  }
  node.shape = node.shape.with(0, node.shape[0] * parts_of(family));
  node.varies = varies::unknown;
  return out_.add(std::move(node));
}

int FamilyLifter::by_parts(const Family& family) {
  IrNode node = first(family);
  std::vector<int64_t>& ints = node.attrs.ints;
  const bool axes = node.op == &ops::permute_op || node.op == &ops::flip_op || node.op == &ops::concat_op ||
                    node.op == &ops::gather_op || node.op == &ops::iota_op;
  if (node.op->kind == OpKind::reduce || axes)
    ints = behind_parts(ints);
  else if (node.op->kind == OpKind::index)
    return -1;
  if (node.op == &ops::permute_op || node.op == &ops::pad_op) ints.insert(ints.begin(), 0);
  if (node.op == &ops::slice_op) {
    const SliceAttrs part(node.attrs);
    std::vector<int64_t> start{0}, step{1};
    start.insert(start.end(), part.start.begin(), part.start.end());
    step.insert(step.end(), part.step.begin(), part.step.end());
    node.attrs = slice_attrs(start, step);
  }
  for (size_t n = 0; n < node.inputs.size(); ++n) node.inputs[n] = beside(family, n);
  node.shape = node.shape.inserted(0, parts_of(family));
  node.varies = varies::unknown;
  return out_.add(std::move(node));
}

// Rows of all parts by one shared matrix are more rows; otherwise the parts are batches.
int FamilyLifter::product(Family& family) {
  const IrNode& part = first(family);
  family.rows =
      part.shape.rank() == 2 && is_family(family, 0) && operand_family(family, 0).rows && !is_family(family, 1);
  if (!family.rows) return by_parts(family);
  const int64_t rows = part.shape[0] * parts_of(family);
  const int left = operand_family(family, 0).joined, right = shared(family, 1);
  return out_.add({&ops::matmul_op, part.attrs, {left, right}, part.shape.with(0, rows), part.dtype});
}

// Images of all parts by shared weights are more images.
int FamilyLifter::convolved(Family& family) {
  IrNode node = first(family);
  const bool images = node.op == &ops::conv_op || node.op == &ops::conv_input_grad_op;
  if (!images || !is_family(family, 0) || is_family(family, 1)) return -1;
  family.rows = true;
  node.inputs = {rows(operand_family(family, 0)), shared(family, 1)};
  node.shape = node.shape.with(0, node.shape[0] * parts_of(family));
  node.varies = varies::unknown;
  return out_.add(std::move(node));
}

int FamilyLifter::sum(const Family& family) {
  const IrNode& part = first(family);
  const bool one = family.operands.size() == 1 && is_family(family, 0);
  if (one && (part.op == &ops::permute_op || part.op == &ops::reshape_op)) {
    const int total = sum(operand_family(family, 0));
    return total < 0 ? -1 : out_.add({part.op, part.attrs, {total}, part.shape, part.dtype});
  }
  if (!reads_joined(family)) return -1;
  if (one && part.op == &ops::sum_op) return sum_of_sums(family);
  const bool both = family.operands.size() == 2 && is_family(family, 0) && is_family(family, 1);
  if (both && part.op == &ops::matmul_op && part.shape.rank() == 2) return sum_of_products(family);
  if (both && part.op == &ops::conv_weight_grad_op) {
    const int x = rows(operand_family(family, 0)), g = rows(operand_family(family, 1));
    return out_.add({part.op, part.attrs, {x, g}, part.shape, part.dtype});
  }
  return family.joined < 0 ? -1 : rewrite::reduce(out_, ops::sum_op, parts(family), {0});
}

int FamilyLifter::sum_of_sums(const Family& family) {
  const Attrs& attrs = first(family).attrs;
  const Family& summed = operand_family(family, 0);
  if (summed.rows && names_axis(attrs, 0)) return rewrite::reduce(out_, ops::sum_op, summed.joined, axes_of(attrs));
  std::vector<int64_t> moved = behind_parts(axes_of(attrs));
  moved.insert(moved.begin(), 0);
  return rewrite::reduce(out_, ops::sum_op, parts(summed), moved);
}

// sum_i a_i b_i: one product, along the inner dimensions of all parts.
int FamilyLifter::sum_of_products(const Family& family) {
  const IrNode& part = first(family);
  const Family &a = operand_family(family, 0), &b = operand_family(family, 1);
  const int right = rows(b);
  int left = -1;
  if (first(a).op == &ops::permute_op && is_family(a, 0))
    left = rewrite::permute(out_, rows(operand_family(a, 0)), {1, 0});
  else
    left =
        rewrite::reshape(out_, rewrite::permute(out_, parts(a), {1, 0, 2}), Shape{part.shape[0], shape_of(right)[0]});
  return out_.add({&ops::matmul_op, part.attrs, {left, right}, part.shape, part.dtype});
}

}  // namespace heddle
