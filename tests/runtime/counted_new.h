// Counts what the library takes from the heap by operator new in this thread; what drivers and layers take is theirs.
// Thread safety: per thread.
#pragma once

#include <cstddef>

namespace heddle::test {

class CountedNew {
 public:
  CountedNew();
  ~CountedNew();
  size_t count() const;
};

}  // namespace heddle::test
