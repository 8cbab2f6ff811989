// Rows over packed blocks: shaders/unpack_blocks.hk, and shaders/packed_matmul.hk and packed_matmul_grad.hk with the
// group's elementwise work as epilogue.
#include <algorithm>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/lower/body_launch.h"
#include "heddle/core/lower/body_lowering.h"
#include "heddle/core/lower/lower_elementwise.h"
#include "heddle/core/lower/operand.h"
#include "heddle/core/op/packed_rows.h"
#include "heddle/core/tiles/packed_tiles.h"

namespace heddle {
namespace {

int64_t last_of(const Shape& shape) { return shape[shape.rank() - 1]; }

// Variables (core/lower/section.h) of an operand whose last dimension is read from end to end.
std::vector<int> leading(int rank) {
  std::vector<int> variables(static_cast<size_t>(rank), -1);
  for (int d = 0; d < rank - 1; ++d) variables[static_cast<size_t>(d)] = d;
  return variables;
}

// The work may be cut along the outermost dimension, whose parts are rows that follow each other.
void note_rows(const Section& section, const Shape& shape) {
  int d = 0;
  while (d + 2 < shape.rank() && shape[d] == 1) ++d;
  if (d < shape.rank() - 1) section.touched->divisible.insert(d);
}

// Blocks are read as bytes, and their scales as f16: two bindings of one buffer.
void add_bytes(LoweredKernel& kernel, const Operand& blocks) {
  kernel.bindings.push_back(blocks.slot);
  kernel.bindings.push_back(blocks.slot);
}

}  // namespace

LoweredKernel lower_unpack_blocks(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const IrNode& node = graph.nodes[in.group.anchor];
  const GgmlType type = block_type_of(node.attrs);
  const KernelFile& file = KernelFile::builtin("unpack_blocks");
  Emitter e(in.scheduled, in.group, file.constants.size(), false, in.section);
  Operand blocks = resolve_operand(in.scheduled, in.group, node.inputs[0], "x");
  if (in.section != nullptr) {
    note_rows(*in.section, node.shape);
    enter_operand(*in.section, blocks, leading(node.shape.rank()));
  }
  e.store(in.group.anchor, "x", "0");
  check_body_start(e.section_offset(in.group.anchor), node);
  KernelFile::Options options;
  options.tunables = pick_unpack_blocks(in.caps);
  options.tunables["BLOCKS"] = block_number(type);
  const int64_t stretches = within(in.section, node.shape, 0).numel() / packed_stretch;
  LoweredKernel kernel;
  kernel.source = file.instantiate(options);
  kernel.source.name = e.kernel_name();
  add_bytes(kernel, blocks);
  kernel.bindings.push_back(e.slots()[0]);
  kernel.constants = {static_cast<uint32_t>(stretches), static_cast<uint32_t>(blocks.view.offset)};
  const auto groups = file.groups(options.tunables, {{"STRETCHES", stretches}, {"BLOCKS_OFF", blocks.view.offset}});
  std::copy(groups.begin(), groups.end(), kernel.groups);
  kernel.loop_iterations = options.tunables.at("COUNT") * (2 * packed_stretch + 1);
  return kernel;
}

LoweredKernel lower_matmul_packed(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const IrNode& node = graph.nodes[in.group.anchor];
  const GgmlType type = block_type_of(node.attrs);
  const bool gradient = node.op == &ops::matmul_packed_input_grad_op;
  const KernelFile& file = KernelFile::builtin(gradient ? "packed_matmul_grad" : "packed_matmul");
  Emitter e(in.scheduled, in.group, file.constants.size(), false, in.section);
  Operand x = resolve_operand(in.scheduled, in.group, node.inputs[0], "x");
  Operand blocks = resolve_operand(in.scheduled, in.group, node.inputs[1], "x");
  if (in.section != nullptr) {
    const int last = node.shape.rank() - 1;
    note_rows(*in.section, node.shape);
    if (!gradient) in.section->touched->divisible.insert(last);
    enter_operand(*in.section, x, leading(node.shape.rank()));
    enter_operand(*in.section, blocks, {gradient ? -1 : last, -1});
  }
  const Shape shape = within(in.section, node.shape, 0);
  const int64_t columns = last_of(shape), depth = last_of(graph.nodes[node.inputs[0]].shape);
  const int64_t rows = shape.numel() / columns;
  const bool varies = group_varies(in.scheduled, in.group);
  KernelFile::Options options;
  options.hooks["EPILOGUE"] = print_epilogue(e, in, "x", {{node.shape.rank() - 1, "m"}, {1, gradient ? "k" : "n"}});
  options.extra_buffers = e.buffers();
  options.extra_constants = e.constant_params();
  options.dropped_buffers = {"dst"};
  // Where the number of rows varies, kernels are for few of them or for many.
  const int64_t meant = varies ? (rows > few_packed_rows ? 64 : 4) : rows;
  options.tunables = gradient ? pick_matmul_packed_grad(in.caps, type, meant, columns, depth)
                              : pick_matmul_packed(in.caps, type, meant, columns, depth);
  options.tunables["BLOCKS"] = block_number(type);

  LoweredKernel kernel;
  kernel.source = file.instantiate(options);
  kernel.source.name = e.kernel_name();
  kernel.source.helpers = e.helpers() + kernel.source.helpers;
  kernel.bindings = {x.slot};
  add_bytes(kernel, blocks);
  kernel.bindings.insert(kernel.bindings.end(), e.slots().begin(), e.slots().end());
  // Of the matrix, (N, K): the gradient's columns are its columns.
  const Bindings constants{{"M", rows},
                           {"N", gradient ? depth : columns},
                           {"K", gradient ? columns : depth},
                           {"X_OFF", x.view.offset},
                           {"BLOCKS_OFF", blocks.view.offset}};
  for (const ConstParam& c : file.constants) kernel.constants.push_back(static_cast<uint32_t>(constants.at(c.name)));
  kernel.constants.insert(kernel.constants.end(), e.constant_values().begin(), e.constant_values().end());
  const auto groups = file.groups(options.tunables, constants);
  std::copy(groups.begin(), groups.end(), kernel.groups);
  kernel.loop_iterations = gradient ? matmul_packed_grad_iterations(options.tunables, rows, depth)
                                    : matmul_packed_iterations(options.tunables, depth);
  return kernel;
}

}  // namespace heddle
