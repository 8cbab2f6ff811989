#include "heddle/backend_opencl/loaded_kernels.h"

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_set>

#include "heddle/core/base/system/library.h"

namespace heddle::opencl {
namespace {

std::atomic<unsigned long long> seen{0};

}  // namespace

bool kernels_were_unloaded() { return os::unloaded_libraries() != seen; }

void hold_loaded_kernels() {
  static std::mutex mutex;
  static auto& held = *new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  seen = os::unloaded_libraries();
  for (const std::string& path : os::loaded_libraries()) {
    // One that is gone by now comes again.
    if (path.ends_with("/heddle_kernel.so") && !held.contains(path) && os::keep_loaded(path)) held.insert(path);
  }
}

}  // namespace heddle::opencl
