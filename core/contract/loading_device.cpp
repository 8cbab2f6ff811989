#include "heddle/core/contract/loading_device.h"

#include "heddle/core/base/parallel.h"
#include "heddle/core/contract/kernel_compiler.h"

namespace heddle {

KernelId LoadingDevice::compile(const KernelSource& source) {
  const KernelSource* const sources[] = {&source};
  return compile_all(sources).front();
}

std::vector<KernelId> LoadingDevice::compile_all(std::span<const KernelSource* const> sources) {
  std::vector<KernelBinary> made(sources.size());
  parallel_each(sources.size(), [&](size_t i) { made[i] = compile_kernel(*sources[i], caps()); });
  std::vector<const KernelBinary*> binaries;
  for (const KernelBinary& binary : made) binaries.push_back(&binary);
  return load_all(binaries);
}

}  // namespace heddle
