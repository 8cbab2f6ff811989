// Files as memory that is read when it is touched.
//
// Invariants: a mapping is read-only, begins at a page, and outlives its descriptor. A file that another process cuts
// while it is mapped ends this process where the missing part is touched (POSIX) or cannot be cut (Windows): map what
// nobody changes in place. Errors: null, and errno. Thread safety: may be called from any thread.
#pragma once

#include <cstdint>

namespace heddle::os {

// The first `bytes` of an open file, at least one.
const void* map_file(int descriptor, uint64_t bytes);
void unmap_file(const void* mapping, uint64_t bytes);

}  // namespace heddle::os
