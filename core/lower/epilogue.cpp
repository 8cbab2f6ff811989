#include "heddle/core/lower/epilogue.h"

#include <fmt/format.h>

#include "heddle/core/lower/axes.h"
#include "heddle/core/lower/emit_text.h"

namespace heddle {
namespace {

void emit_stores(Emitter& e, const LowerInput& in, const Shape& shape) {
  e.bind(in.group.anchor, "t_acc");
  for (const Member& member : in.group.members) {
    if (!member.stored) continue;
    const std::string v = e.member_value(member);
    e.store(member.node, v, e.linear_index(shape, 0));
  }
}

}  // namespace

std::string print_epilogue(Emitter& e, const LowerInput& in, const std::string& value,
                           const std::vector<EpilogueBlock>& blocks) {
  const IrNode& node = in.scheduled.graph.nodes[in.group.anchor];
  // The first pass learns how everything is indexed, and so which dimensions of a block need no index of their own.
  e.names.assign(static_cast<size_t>(Shape::max_rank), "t_d");
  emit_stores(e, in, node.shape);
  std::vector<std::vector<Axis>> axes;
  int first = 0;
  for (const EpilogueBlock& block : blocks) {
    const Shape shape(node.shape.dims().subspan(first, block.dimensions));
    axes.push_back(merge_axes(e, shape, first, "t_" + block.index));
    first += block.dimensions;
  }
  e.start_over();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (axes[i].empty()) continue;
    const std::string flat = "t_flat_" + blocks[i].index;
    e.line(fmt::format("int {} = CAST(int, {});", flat, blocks[i].index));
    split_index(e, axes[i], flat);
  }
  e.line(fmt::format("{} t_acc = {};", dialect_type(node.dtype), wrap_narrow(value, node.dtype)));
  emit_stores(e, in, node.shape);
  return "{\n" + e.take_text() + "}";
}

}  // namespace heddle
