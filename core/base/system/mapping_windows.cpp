#include <io.h>

#include "heddle/core/base/system/mapping.h"
#include "heddle/core/base/system/windows_handle.h"

namespace heddle::os {

// A view keeps what it shows open.
const void* map_file(int descriptor, uint64_t bytes) {
  const auto file = reinterpret_cast<HANDLE>(_get_osfhandle(descriptor));
  const HANDLE section = CreateFileMappingW(file, nullptr, PAGE_READONLY, static_cast<DWORD>(bytes >> 32),
                                            static_cast<DWORD>(bytes), nullptr);
  const void* const mapping =
      section != nullptr ? MapViewOfFile(section, FILE_MAP_READ, 0, 0, static_cast<SIZE_T>(bytes)) : nullptr;
  if (mapping == nullptr) set_errno();
  if (section != nullptr) CloseHandle(section);
  return mapping;
}

void unmap_file(const void* mapping, uint64_t) { UnmapViewOfFile(mapping); }

}  // namespace heddle::os
