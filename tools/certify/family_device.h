// A device of a GPU family that is not here: everything is planned for its Caps, nothing runs, and every kernel that
// would be compiled is kept.
//
// Invariants: commands are checked as the null device checks them; reads give zeros. Thread safety: open_family() from
// one thread.
#pragma once

#include <vector>

#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/device/context.h"
#include "tools/certify/gpu_families.h"

namespace heddle::tools::certify {

// Two devices a family, so that each kernel is kept once of bodies and once of recipes.
enum class Subjects : uint8_t { bodies, recipes };
// Opened on first use; the default device from then on.
DeviceContext& open_family(const GpuFamily& family, Subjects of = Subjects::bodies);
// What such a device was to compile since the last call.
std::vector<KernelSource> take_kernels(DeviceContext& device);

}  // namespace heddle::tools::certify
