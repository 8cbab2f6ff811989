#include "heddle/core/memory/planned_loop.h"

#include <algorithm>

namespace heddle {

size_t PlannedLoop::launches() const {
  size_t one = 0;
  for (const LoweredKernel& kernel : body.kernels) one += launches_of(kernel);
  return one * static_cast<size_t>(length) + fills.size();
}

size_t launches_of(const LoweredKernel& kernel) {
  return kernel.loop ? kernel.loop->launches() : std::max<size_t>(1, kernel.sections.size());
}

}  // namespace heddle
