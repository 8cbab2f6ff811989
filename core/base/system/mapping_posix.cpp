#include <sys/mman.h>

#include <cstddef>

#include "heddle/core/base/system/mapping.h"

namespace heddle::os {

const void* map_file(int descriptor, uint64_t bytes) {
  void* const mapping = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_PRIVATE, descriptor, 0);
  return mapping == MAP_FAILED ? nullptr : mapping;
}

void unmap_file(const void* mapping, uint64_t bytes) {
  ::munmap(const_cast<void*>(mapping), static_cast<size_t>(bytes));
}

}  // namespace heddle::os
