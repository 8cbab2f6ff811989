// The bodies of linear algebra: one launch for all matrices of a batch, over dense operands (the materializer made them so).
#include <algorithm>

#include "core/exec/bodies.h"
#include "core/exec/operand.h"
#include "core/graph/linalg.h"
#include "core/kernel/kernel_file.h"
#include "core/kernel/linalg_schedule.h"

namespace heddle {
namespace {

struct Launch {
  const KernelFile& file;
  KernelFile::Options options;
  std::vector<int64_t> constants;
  int64_t iterations = 0;
};

LoweredKernel assemble(const LowerInput& in, const Launch& launch) {
  const IrNode& node = in.scheduled.graph.nodes[in.group.anchor];
  Emitter e(in.scheduled, in.group, launch.file.constants.size());
  e.store(in.group.anchor, "x", "0");
  LoweredKernel kernel;
  kernel.source = launch.file.instantiate(launch.options);
  kernel.source.name = e.kernel_name();
  for (int input : node.inputs) kernel.bindings.push_back(resolve_operand(in.scheduled, in.group, input, "x").slot);
  kernel.bindings.push_back(e.slots()[0]);
  Bindings named;
  for (size_t i = 0; i < launch.constants.size(); ++i) {
    named[launch.file.constants[i].name] = launch.constants[i];
    kernel.constants.push_back(static_cast<uint32_t>(static_cast<int32_t>(launch.constants[i])));
  }
  const auto groups = launch.file.groups(launch.options.tunables, named);
  std::copy(groups.begin(), groups.end(), kernel.groups);
  kernel.loop_iterations = launch.iterations;
  return kernel;
}

const IrNode& input_of(const LowerInput& in, size_t number) {
  const Graph& graph = in.scheduled.graph;
  return graph.nodes[graph.nodes[in.group.anchor].inputs[number]];
}

}  // namespace

LoweredKernel lower_cholesky_block(const LowerInput& in) {
  const IrNode& a = input_of(in, 0);
  const int64_t n = a.shape[2];
  Launch launch{KernelFile::builtin("cholesky"), {}, {a.shape[0], n}, 0};
  launch.options.types = {{"T", a.dtype}};
  launch.options.tunables = pick_cholesky(in.caps, a.dtype, n);
  launch.iterations = cholesky_iterations(launch.options.tunables, n);
  return assemble(in, launch);
}

LoweredKernel lower_lu_panel(const LowerInput& in) {
  const IrNode& a = input_of(in, 0);
  const int64_t m = a.shape[1], n = a.shape[2];
  Launch launch{KernelFile::builtin("lu"), {}, {a.shape[0], m, n}, 0};
  launch.options.types = {{"T", a.dtype}};
  launch.options.tunables = pick_lu(in.caps, a.dtype, m, n);
  launch.iterations = lu_iterations(launch.options.tunables, m, n);
  return assemble(in, launch);
}

LoweredKernel lower_triangular_block(const LowerInput& in) {
  const IrNode& node = in.scheduled.graph.nodes[in.group.anchor];
  const int64_t n = node.shape[1], k = node.shape[2];
  Launch launch{KernelFile::builtin("triangular"), {}, {node.shape[0], n, k}, 0};
  launch.options.types = {{"T", node.dtype}};
  launch.options.tunables = pick_triangular(in.caps, node.dtype, n, k);
  launch.options.tunables["UPPER"] = node.attrs.ints[0];
  launch.options.tunables["TRANSPOSED"] = node.attrs.ints[1];
  launch.options.tunables["UNIT"] = node.attrs.ints[2];
  launch.iterations = triangular_iterations(launch.options.tunables, n, k);
  return assemble(in, launch);
}

}  // namespace heddle
