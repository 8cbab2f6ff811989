#include "heddle/backend_opencl/loaded_kernels.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace heddle::opencl {
namespace {

// That the loader has unloaded since the process began.
unsigned long long unloaded() {
  unsigned long long count = 0;
  const auto first = [](dl_phdr_info* info, size_t, void* result) {
    *static_cast<unsigned long long*>(result) = info->dlpi_subs;
    return 1;
  };
  ::dl_iterate_phdr(first, &count);
  return count;
}

std::vector<std::string> loaded_kernels() {
  std::vector<std::string> paths;
  const auto each = [](dl_phdr_info* info, size_t, void* result) {
    if (std::string_view(info->dlpi_name).ends_with("/heddle_kernel.so"))
      static_cast<std::vector<std::string>*>(result)->emplace_back(info->dlpi_name);
    return 0;
  };
  ::dl_iterate_phdr(each, &paths);
  return paths;
}

std::atomic<unsigned long long> seen{0};

}  // namespace

bool kernels_were_unloaded() { return unloaded() != seen; }

void hold_loaded_kernels() {
  static std::mutex mutex;
  static auto& held = *new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  seen = unloaded();
  for (const std::string& path : loaded_kernels()) {
    // Outside of dl_iterate_phdr, which holds the loader's lock; one that is gone by now comes again. NODELETE makes
    // the driver's dlclose() cheap as well.
    if (!held.contains(path) && ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) held.insert(path);
  }
}

}  // namespace heddle::opencl
