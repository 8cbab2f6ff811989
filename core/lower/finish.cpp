#include "heddle/core/lower/finish.h"

#include <algorithm>

#include "heddle/core/contract/grid.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/lower/horizontal.h"

namespace heddle {

LoweredKernel finish(Emitter& emitter, const LowerInput& in, std::array<uint32_t, 3> lanes, int64_t groups) {
  LoweredKernel kernel;
  kernel.parallel = !emitter.varying();
  kernel.sized = emitter.varying() && emitter.overflowed();
  kernel.source.name = emitter.kernel_name();
  kernel.source.buffers = emitter.buffers();
  kernel.source.constants = emitter.constant_params();
  kernel.source.group = lanes;
  kernel.source.helpers = emitter.helpers();
  if (emitter.moves_bits()) kernel.source.defines.emplace_back(half_bits_define, "1");
  kernel.source.body = emitter.take_text();
  if (emitter.joined()) {
    kernel.joined.push_back({emitter.slots(), emitter.constant_values(), groups});
    make_joined(kernel.source, emitter.constant_values().size());
    return kernel;
  }
  kernel.bindings = emitter.slots();
  kernel.constants = emitter.constant_values();
  const auto grid = fold_groups(groups, in.caps);
  std::copy(grid.begin(), grid.end(), kernel.groups);
  return kernel;
}

}  // namespace heddle
