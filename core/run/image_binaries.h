// Compiled kernels for an image, so that a program without a compiler can run it.
// Thread safety: pure function but for the compilers' disk cache.
#pragma once

#include "heddle/core/contract/device_info.h"
#include "heddle/core/run/image.h"

namespace heddle {

// Gives every kernel of the image, which was planned for such a device, its binary; `keep_sources`: beside the text,
// else instead of it. What is compiled is what the device would compile. Throws CompileError.
void add_binaries(GraphImage& image, const Caps& caps, bool keep_sources = false);

}  // namespace heddle
