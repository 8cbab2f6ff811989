// GLSL's own parts of a printed kernel: extensions, and the blocks and texel buffers through which buffers are seen.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/contract/kernel_binary.h"
#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/dialect/prelude.h"
#include "heddle/core/dialect/print_options.h"

namespace heddle {

// The version, the extensions that what is `used` needs, and the size of a group.
std::string glsl_head(const KernelSource& source, const PrintOptions& options, const Identifiers& used);

// Whether elements of that type lie in words, of which a load takes a part and a store changes one.
inline bool in_words(DType t, const PrintOptions& options) {
  return (options.words8 && size_of(t) == 1) || (options.words16 && size_of(t) == 2);
}

// Whether a kernel loads, and stores, 16 bytes at a time.
struct QuadUse {
  bool loads = false, stores = false;
};
// The declarations of source.buffers[i]. `layout`: descriptors() of the source; `type`: of an element in memory.
std::string glsl_block(const KernelSource& source, const PrintOptions& options, size_t i,
                       const std::vector<BufferSlot>& layout, std::string_view type, QuadUse quads);
// Types that STORE_QUAD writes 16 bytes of.
inline bool quad_storable(DType t) { return t == DType::f32 || t == DType::i32; }

}  // namespace heddle
