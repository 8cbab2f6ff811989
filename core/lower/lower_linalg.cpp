// The bodies of linear algebra: one launch for all matrices of a batch, over operands (B, m, n) as they lie.
#include <algorithm>

#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/lower/body_launch.h"
#include "heddle/core/lower/body_lowering.h"
#include "heddle/core/lower/operand.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/tiles/linalg_tiles.h"

namespace heddle {
namespace {

// First element, and the distances of matrices, rows and columns.
void add_strides(BodyLaunch& launch, const LowerInput& in, int input) {
  const View view = resolve_operand(in.scheduled, in.group, input, "x").view;
  launch.constants.insert(launch.constants.end(), {view.offset, view.strides[0], view.strides[1], view.strides[2]});
}

const IrNode& node_of(const LowerInput& in) { return in.scheduled.graph.nodes[in.group.anchor]; }
const IrNode& input_of(const LowerInput& in, size_t number) {
  return in.scheduled.graph.nodes[node_of(in).inputs[number]];
}

}  // namespace

LoweredKernel lower_cholesky_block(const LowerInput& in) {
  const IrNode& a = input_of(in, 0);
  const int64_t n = a.shape[2];
  BodyLaunch launch{KernelFile::builtin("cholesky"), {}, {a.shape[0], n}, 0};
  launch.options.types = {{"T", a.dtype}};
  add_strides(launch, in, node_of(in).inputs[0]);
  launch.options.tunables = pick_cholesky(in.caps, a.dtype, n);
  launch.iterations = cholesky_iterations(launch.options.tunables, n);
  return assemble(in, launch);
}

LoweredKernel lower_lu_panel(const LowerInput& in) {
  const IrNode& a = input_of(in, 0);
  const int64_t m = a.shape[1], n = a.shape[2];
  BodyLaunch launch{KernelFile::builtin("lu"), {}, {a.shape[0], m, n}, 0};
  launch.options.types = {{"T", a.dtype}};
  add_strides(launch, in, node_of(in).inputs[0]);
  launch.options.tunables = pick_lu(in.caps, a.dtype, m, n);
  launch.iterations = lu_iterations(launch.options.tunables, m, n);
  return assemble(in, launch);
}

LoweredKernel lower_triangular_block(const LowerInput& in) {
  const IrNode& node = node_of(in);
  const int64_t n = node.shape[1], k = node.shape[2];
  BodyLaunch launch{KernelFile::builtin("triangular"), {}, {node.shape[0], n, k}, 0};
  launch.options.types = {{"T", node.dtype}};
  for (int input : node.inputs) add_strides(launch, in, input);
  launch.options.tunables = pick_triangular(in.caps, node.dtype, n, k);
  const TriangularAttrs attrs(node.attrs);
  launch.options.tunables["UPPER"] = attrs.upper;
  launch.options.tunables["TRANSPOSED"] = attrs.transposed;
  launch.options.tunables["UNIT"] = attrs.unit;
  launch.iterations = triangular_iterations(launch.options.tunables, n, k);
  return assemble(in, launch);
}

// ints = {RIGHT, BELOW}; inputs are the blocks that are there, in the order of the file.
LoweredKernel lower_join_blocks(const LowerInput& in) {
  const IrNode &node = node_of(in), &a = input_of(in, 0);
  const int64_t right = node.attrs.ints[0], below = node.attrs.ints[1];
  BodyLaunch launch{
      KernelFile::builtin("blocks"), {}, {node.shape[0], node.shape[1], node.shape[2], a.shape[1], a.shape[2]}, 0};
  launch.options.types = {{"T", node.dtype}};
  launch.options.tunables = pick_blocks(in.caps, node.dtype, node.shape[1], node.shape[2]);
  launch.options.tunables["RIGHT"] = right;
  launch.options.tunables["BELOW"] = below;
  const bool there[] = {true, right == 1, below != 0, right != 0 && below != 0};
  const char* names[] = {"a", "b", "c", "d"};
  size_t next = 0;
  for (size_t block = 0; block < 4; ++block) {
    if (there[block]) {
      add_strides(launch, in, node.inputs[next++]);
    } else {
      launch.constants.insert(launch.constants.end(), 4, 0);
      launch.options.dropped_buffers.push_back(names[block]);
    }
  }
  launch.iterations = launch.options.tunables["SCHEDULE"] == 0 ? 0 : node.shape[2];
  return assemble(in, launch);
}

LoweredKernel lower_qr_panel(const LowerInput& in) {
  const IrNode& a = input_of(in, 0);
  const int64_t m = a.shape[1], n = a.shape[2];
  BodyLaunch launch{KernelFile::builtin("qr"), {}, {a.shape[0], m, n}, 0};
  launch.options.types = {{"T", a.dtype}};
  add_strides(launch, in, node_of(in).inputs[0]);
  launch.options.tunables = pick_qr(in.caps, a.dtype, m, n);
  launch.iterations = qr_iterations(launch.options.tunables, m, n);
  return assemble(in, launch);
}

LoweredKernel lower_condensing(const LowerInput& in) {
  const IrNode& node = node_of(in);
  const bool both = node.op == &linalg::bidiagonal_op;
  const int64_t n = node.attrs.ints[0], pitch = node.shape[2], first = node.attrs.ints[1], last = node.attrs.ints[2];
  BodyLaunch launch{
      KernelFile::builtin(both ? "bidiagonal" : "tridiagonal"), {}, {node.shape[0], n, pitch, first, last}, 0};
  launch.options.types = {{"T", node.dtype}};
  launch.options.tunables = pick_condensing(in.caps, node.dtype, n, both);
  launch.iterations = condensing_iterations(launch.options.tunables, n, both, last - first);
  return assemble(in, launch);
}

LoweredKernel lower_sweeps(const LowerInput& in) {
  const IrNode &node = node_of(in), &a = input_of(in, 0);
  const int64_t n = node.attrs.ints[0], sweeps = node.attrs.ints[1], room = node.attrs.ints[2];
  const char* body = node.op == &linalg::bidiagonal_sweeps_op ? "bidiagonal_sweeps" : "tridiagonal_sweeps";
  BodyLaunch launch{KernelFile::builtin(body), {}, {node.shape[0], n, a.shape[1], node.shape[1], sweeps, room}, 0};
  launch.options.types = {{"T", node.dtype}};
  launch.options.tunables = pick_sweeps(in.caps, node.dtype, n);
  launch.iterations = sweeps_iterations(n, sweeps, room);
  return assemble(in, launch);
}

LoweredKernel lower_rotate_rows(const LowerInput& in) {
  const IrNode &node = node_of(in), &f = input_of(in, 0);
  const auto& ints = node.attrs.ints;
  const int64_t n = node.shape[1], columns = node.shape[2];
  BodyLaunch launch{KernelFile::builtin("rotate_rows"),
                    {},
                    {node.shape[0], n, columns, f.shape[1], ints[0], ints[1], ints[2], ints[3]},
                    0};
  launch.options.types = {{"T", node.dtype}};
  launch.options.tunables = pick_rotate_rows(in.caps, node.dtype, n);
  launch.iterations = rotate_rows_iterations(launch.options.tunables, n, (ints[2] - ints[1]) / 3, ints[4]);
  return assemble(in, launch);
}

LoweredKernel lower_rotate(const LowerInput& in) {
  const IrNode& node = node_of(in);
  const auto& ints = node.attrs.ints;
  BodyLaunch launch{KernelFile::builtin("jacobi"), {}, {node.shape[0], ints[1], ints[2], ints[3], ints[4]}, 0};
  launch.options.types = {{"T", node.dtype}};
  launch.options.tunables = pick_jacobi(in.caps, node.dtype, ints[1]);
  launch.options.tunables["SYMMETRIC"] = ints[0];
  launch.iterations = jacobi_iterations(launch.options.tunables, ints[1], ints[2]);
  return assemble(in, launch);
}

}  // namespace heddle
