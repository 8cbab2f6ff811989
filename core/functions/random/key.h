// The keys of random draws. Internal to core/functions.
//
// Thread safety: as the generator's.
#pragma once

#include "heddle/core/device/context.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/core/graph/node.h"

namespace heddle::build {

// The key of the next draw: a host value, so that a training step that draws anew is still the same step. No generator:
// that of the process.
NodePtr next_key(DeviceContext& device, Generator* generator);

}  // namespace heddle::build
