#include "heddle/core/base/system/library.h"

namespace heddle::os {

void* open_library(Vendor vendor) {
  for (const LibraryName& name : names_of(vendor)) {
    if (void* const library = open_library(name.name)) return library;
  }
  return nullptr;
}

}  // namespace heddle::os
