// Values that are read at indices which depend on more than the position: pad, concat, take and gather, random bits.
#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/lower/emit.h"
#include "heddle/core/lower/emit_text.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

// Guarded read: the part under the branch is only computed where it exists.
std::string Emitter::compute_pad(int id, const std::vector<Index>& index) {
  const IrNode& node = graph().nodes[id];
  const Shape& in = graph().nodes[node.inputs[0]].shape;
  Path inner{{}, in, {}};
  std::string inside;
  for (int d = 0; d < in.rank(); ++d) {
    const int64_t before = border_of(node.attrs)[static_cast<size_t>(d)];
    const bool by_chance = dimension_varies(node, d) != dimension_varies(graph().nodes[node.inputs[0]], d);
    if (in[d] == node.shape[d] && !by_chance) {
      inner.base.push_back(index[d]);
      continue;
    }
    if (const auto range = values_of(index[d].plus(-before))) {
      if (range->second < 0 || range->first >= in[d]) return literal(node.attrs.real, node.dtype);
      if (range->first >= 0 && range->second < in[d]) {
        inner.base.push_back(index[d].plus(-before));
        continue;
      }
    }
    met_border_ = true;
    // In unsigned arithmetic one comparison covers both ends.
    const std::string at = local(print(index[d].plus(-before)));
    inside += fmt::format("{}CAST(uint, {}) < CAST(uint, {})", inside.empty() ? "" : " && ", at, constant(in[d]));
    // A section must know what it reads, and steps keep the indices of windows free of divisions.
    const bool told = index[d].affine() && (section_ != nullptr || !steps_.empty());
    inner.base.push_back(told ? index[d].plus(-before) : Index{0, {}, at});
  }
  if (inside.empty() && knows_extents()) return value(node.inputs[0], inner);
  const std::string name = declare(node.dtype, literal(node.attrs.real, node.dtype));
  open(fmt::format("if ({})", inside.empty() ? "true" : inside));
  const std::string read = value(node.inputs[0], inner);
  line(fmt::format("{} = {};", name, read));
  close();
  return name;
}

std::string Emitter::compute_concat(int id, const std::vector<Index>& index) {
  const IrNode& node = graph().nodes[id];
  const int axis = axis_of(node.attrs);
  int64_t start = 0;
  if (const auto range = values_of(index[axis]); range && runs_over(index[axis], node.shape[axis])) {
    for (const int input : node.inputs) {
      const Shape& part = graph().nodes[input].shape;
      const int64_t end = start + part[axis];
      if (range->first >= start && range->second < end) {
        Path inner{index, part, {}};
        inner.base[axis] = part[axis] == 1 ? Index::literal(0) : index[axis].plus(-start);
        return value(input, inner);
      }
      start = end;
    }
  }
  const std::string at = local(print(index[axis]));
  const std::string name = declare(node.dtype, literal(0, node.dtype));
  start = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Shape& part = graph().nodes[node.inputs[i]].shape;
    const int64_t end = start + part[axis];
    open(fmt::format("if ({} >= {} && {} < {})", at, constant(start), at, constant(end)));
    Path inner{index, part, {}};
    inner.base[axis] = start == 0 ? Index{0, {}, at} : Index{0, {}, local(fmt::format("{} - {}", at, constant(start)))};
    if (section_ != nullptr && index[axis].affine()) inner.base[axis] = index[axis].plus(-start);
    if (part[axis] == 1) inner.base[axis] = Index::literal(0);
    const std::string read = value(node.inputs[i], inner);
    line(fmt::format("{} = {};", name, read));
    close();
    start = end;
  }
  return name;
}

// A negative index counts from the end once; what is still outside is clamped: no read ever leaves the buffer.
std::string Emitter::compute_take(int id, const std::vector<Index>& index) {
  const IrNode& node = graph().nodes[id];
  const bool take = node.op == &ops::take_op;
  const int axis = axis_of(node.attrs);
  const IrNode& data = graph().nodes[node.inputs[0]];
  const IrNode& indices = graph().nodes[node.inputs[1]];
  Path to_indices{{}, indices.shape, {}};
  for (int d = 0; d < indices.shape.rank(); ++d) to_indices.base.push_back(index[take ? axis + d : d]);
  const std::string raw = value(node.inputs[1], to_indices);
  const int64_t size = data.shape[axis];
  const std::string n = constant(size), last = constant(size - 1);
  const std::string narrow = indices.dtype == DType::i64
                                 ? local(fmt::format("CAST(int, max(min({}, I64(2147483647)), I64(-2147483647)))", raw))
                                 : raw;
  const std::string wrapped = local(fmt::format("{} < 0 ? {} + {} : {}", narrow, narrow, n, narrow));
  const std::string row = local(fmt::format("{} < 0 ? 0 : {} > {} ? {} : {}", wrapped, wrapped, last, last, wrapped));
  Path to_data{{}, data.shape, {}};
  for (int d = 0; d < data.shape.rank(); ++d) {
    if (d == axis)
      to_data.base.push_back(section_ == nullptr ? Index{0, {}, row} : picked_row(id, row, size));
    else
      to_data.base.push_back(index[take && d > axis ? d + indices.shape.rank() - 1 : d]);
  }
  return value(node.inputs[0], to_data);
}

std::string Emitter::compute_random(int id, const std::vector<Index>& index) {
  uses_philox_ = true;
  const IrNode& node = graph().nodes[id];
  std::string word[4];
  for (int w = 0; w < 4; ++w) {
    Path at{{Index::literal(w)}, graph().nodes[node.inputs[0]].shape, {}};
    word[w] = value(node.inputs[0], at);
  }
  const auto strides = row_major_strides(node.shape);
  Index linear;
  std::string opaque;
  for (int d = 0; d < node.shape.rank(); ++d) {
    Index affine = index[d];
    affine.opaque.clear();
    linear = affine_sum(linear, affine, strides[d]);
    if (!index[d].opaque.empty())
      opaque += fmt::format("{}({}) * {}", opaque.empty() ? "" : " + ", index[d].opaque, constant(strides[d]));
  }
  linear.opaque = opaque;
  return declare(node.dtype,
                 fmt::format("t_philox(CAST(uint, {}), CAST(uint, {}), CAST(uint, {}), CAST(uint, {}), CAST(uint, {}))",
                             word[0], word[1], word[2], word[3], print(linear)));
}

}  // namespace heddle
