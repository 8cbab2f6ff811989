// Sorts, scans and sums of joined rows: bodies over dense operands (the materializer made them so).
#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/ir/bodies.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/lower/body_launch.h"
#include "heddle/core/lower/body_lowering.h"
#include "heddle/core/lower/operand.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/tiles/rows_tiles.h"

namespace heddle {
namespace {

// Number of rows along the last dimension.
int64_t rows_of(const Shape& shape) {
  return shape[shape.rank() - 1] == 0 ? 0 : shape.numel() / shape[shape.rank() - 1];
}

}  // namespace

LoweredKernel lower_sort_blocks(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const IrNode& node = graph.nodes[in.group.anchor];
  const IrNode& x = graph.nodes[node.inputs[0]];
  const int64_t length = x.shape[x.shape.rank() - 1], rows = rows_of(x.shape);
  const SortAttrs attrs(node.attrs);
  int64_t block = attrs.block > 0 ? attrs.block : 32;
  while (block < length && attrs.block == 0) block *= 2;
  if (block == 64) block = 128;
  if (dimension_varies(x, x.shape.rank() - 1)) block = std::max(block, sort_block(in.caps));
  BodyLaunch launch{KernelFile::builtin("sort_blocks"),
                    {},
                    {rows, length, std::min(block, attrs.kept), node.shape[node.shape.rank() - 1]},
                    0};
  launch.options.types = {{"T", x.dtype}};
  const bool varies = x.varies != 0;
  launch.options.tunables =
      pick_sort_blocks(in.caps, x.dtype, varies ? nominal_size : rows, varies ? nominal_size : length, block);
  launch.options.tunables["DESCENDING"] = attrs.descending;
  launch.iterations = 64 * block;
  return assemble(in, launch);
}

LoweredKernel lower_sort_merge(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const IrNode& node = graph.nodes[in.group.anchor];
  const IrNode &x = graph.nodes[node.inputs[0]], &from = graph.nodes[node.inputs[1]];
  const MergeAttrs attrs(node.attrs);
  const int64_t rows = rows_of(x.shape);
  BodyLaunch launch{KernelFile::builtin("sort_merge"),
                    {},
                    {rows, x.shape[x.shape.rank() - 1], from.shape[from.shape.rank() - 1], attrs.run, attrs.kept,
                     node.shape[node.shape.rank() - 1]},
                    0};
  launch.options.types = {{"T", x.dtype}};
  const bool varies = x.varies != 0;
  launch.options.tunables =
      pick_sort_merge(in.caps, x.dtype, varies ? nominal_size : rows, varies ? nominal_size : attrs.kept);
  launch.options.tunables["DESCENDING"] = attrs.descending;
  launch.iterations = launch.options.tunables["CHUNK"] + 64;
  return assemble(in, launch);
}

// What a scan begins with and how it goes on, where it is no sum.
std::map<std::string, std::string, std::less<>> scan_hooks(const OpDef& op, DType dtype) {
  if (&op == &ops::cumprod_op) return {{"INIT", "1"}, {"COMBINE", "(p) * (q)"}};
  if (&op == &ops::cummax_op) {
    const char* least = is_float(dtype)       ? "-INFINITY"
                        : dtype == DType::i64 ? "-9223372036854775808.0f"
                                              : "-2147483648.0f";
    return {{"INIT", least},
            {"COMBINE", is_float(dtype) ? "((p) > (q) || isnan(p) ? (p) : (q))" : "((p) > (q) ? (p) : (q))"}};
  }
  // Equal infinities have no difference. A compiler that knows -abs(x) to be below e^x's bound may forget that a NaN
  // is not (NVIDIA's of OpenCL C and of SPIR-V).
  if (&op == &ops::logcumsumexp_op) {
    return {{"INIT", "-INFINITY"},
            {"COMBINE",
             "(isnan(p) ? (p) : (p) == (q) ? (p) + log1p(CAST(T, 1.0f)) : "
             "((p) > (q) ? (p) : (q)) + log1p(exp(-abs((p) - (q)))))"}};
  }
  return {};
}

LoweredKernel lower_scan(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const IrNode& node = graph.nodes[in.group.anchor];
  const ScanAttrs attrs(node.attrs);
  const int axis = attrs.axis;
  const int64_t length = node.shape[axis], chunk = attrs.chunk > 0 ? attrs.chunk : length;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < node.shape.rank(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : node.shape[d];
  const int64_t chunks = ceil_div(length, chunk);
  const bool carry = node.inputs.size() > 1;
  BodyLaunch launch{KernelFile::builtin("scan"), {}, {outer, length, inner, chunk, chunks}, 0};
  launch.options.types = {{"T", node.dtype}, {"TC", carry ? graph.nodes[node.inputs[1]].dtype : node.dtype}};
  // An inner length of 1 opens a schedule of its own.
  const bool varies = node.varies != 0;
  launch.options.tunables = varies ? pick_scan(in.caps, node.dtype, nominal_size, 1, inner == 1 ? 1 : nominal_size)
                                   : pick_scan(in.caps, node.dtype, outer, chunks, inner);
  launch.options.tunables["CARRY"] = carry;
  launch.options.tunables["EXCLUSIVE"] = attrs.exclusive;
  launch.options.tunables["REVERSE"] = attrs.reverse;
  launch.options.hooks = scan_hooks(*node.op, node.dtype);
  if (!carry) launch.options.dropped_buffers = {"carry"};
  launch.iterations = launch.options.tunables["SCHEDULE"] == 2 ? 2 * ((chunk + 15) / 16) + 16 : chunk;
  return assemble(in, launch);
}

// inputs: base (perhaps), index, order, updates.
LoweredKernel lower_segment_add(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const IrNode& node = graph.nodes[in.group.anchor];
  const bool base = node.inputs.size() == 4;
  const IrNode& index = graph.nodes[node.inputs[base ? 1 : 0]];
  const int64_t all_rows = node.shape[0], columns = all_rows == 0 ? 0 : node.shape.numel() / all_rows,
                count = index.shape[0], rows = within(in.section, node.shape, 0)[0],
                first = in.section != nullptr ? in.section->first_of(0) : 0;
  BodyLaunch launch{KernelFile::builtin("segment_add"), {}, {rows, columns, count, first}, 0};
  launch.divisible = true;
  if (base) launch.by_rows = {0};
  launch.options.types = {{"T", node.dtype}, {"I", index.dtype}};
  const bool varies = ((node.varies | index.varies) & varies::dimensions) != 0;
  launch.options.tunables =
      pick_segment_add(in.caps, node.dtype, varies ? nominal_size : rows, columns, varies ? nominal_size : count);
  if (varies &&
      static_cast<uint64_t>(segment_iterations(launch.options.tunables, columns, count)) > in.caps.max_loop_iterations)
    launch.options.tunables["SCHEDULE"] = 0;
  launch.options.tunables["BASE"] = base;
  if (!base) launch.options.dropped_buffers = {"base"};
  launch.iterations = segment_iterations(launch.options.tunables, columns, count);
  return assemble(in, launch);
}

}  // namespace heddle
