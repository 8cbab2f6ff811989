#include "heddle/nn/sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/base/error.h"

namespace heddle::nn {

int64_t checked_size(const char* who, const char* what, int64_t value, int64_t most, int64_t least) {
  if (value >= least && value <= most) return value;
  throw ValueError(fmt::format("[{}] {} is {}; expected {} to {}", who, what, value, least, most));
}

void check_sizes(const char* who, std::initializer_list<NamedSize> sizes) {
  for (const NamedSize& size : sizes) checked_size(who, size.what, size.value);
}

Shape parameter_shape(const char* who, std::initializer_list<int64_t> sizes) {
  return parameter_shape(who, std::span<const int64_t>(sizes.begin(), sizes.size()));
}

Shape parameter_shape(const char* who, std::span<const int64_t> sizes) {
  int64_t elements = 1;
  bool fits = true;
  for (const int64_t size : sizes) {
    if (size < 0) throw ValueError(fmt::format("[{}] a size of ({}) is negative", who, fmt::join(sizes, ", ")));
    fits = fits && !__builtin_mul_overflow(elements, size, &elements) && elements <= most_elements;
  }
  if (!fits)
    throw ValueError(
        fmt::format("[{}] a parameter ({}) would have more than 2^40 elements", who, fmt::join(sizes, ", ")));
  return Shape(sizes);
}

int64_t count_of_updates(const char* who, const Tensor& saved) {
  const double count = saved.item();
  if (count >= 0 && count <= 0x1p53) return static_cast<int64_t>(count);
  throw ValueError(fmt::format("[{}] the state says {} updates; it is likely not whole", who, count));
}

}  // namespace heddle::nn
