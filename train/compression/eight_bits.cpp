#include "heddle/train/compression/eight_bits.h"

#include "heddle/core/functions/functions.h"

namespace heddle::train {

Tensor EightBits::restored() const { return values.to(DType::f32) * scales; }

EightBits in_eight_bits(const Tensor& x, int dim) {
  const Tensor scales = max(abs(x), {dim}, true) / 127.0;
  return {round(x / where(scales == 0.0, ones_like(scales), scales)).to(DType::i8), scales};
}

}  // namespace heddle::train
