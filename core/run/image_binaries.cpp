#include "heddle/core/run/image_binaries.h"

#include "heddle/core/base/parallel.h"
#include "heddle/core/contract/kernel_compiler.h"

namespace heddle {

void add_binaries(GraphImage& image, const Caps& caps, bool keep_sources) {
  for (GraphImage& once : image.once) add_binaries(once, caps, keep_sources);
  parallel_each(image.kernels.size(), [&](size_t k) {
    GraphImage::Kernel& kernel = image.kernels[k];
    if (kernel.is_compiled() || !kernel.source) return;
    kernel.binary = compile_kernel(*kernel.source, caps);
    kernel.binary.text.clear();
  });
  if (keep_sources) return;
  for (GraphImage::Kernel& kernel : image.kernels) {
    if (kernel.is_compiled()) kernel.source.reset();
  }
}

}  // namespace heddle
