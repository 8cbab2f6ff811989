#include "nn/models/parts.h"

namespace heddle::nn {

Tensor self_attention(const Tensor& joined, int64_t heads, const AttentionOptions& how) {
  const int64_t batch = joined.dim(0), length = joined.dim(1), width = joined.dim(2) / 3;
  const Tensor split = reshape(joined, {batch, length, 3, heads, width / heads});  // (B, T, 3, H, D)
  const auto part = [&](int64_t i) { return transpose(squeeze(slice(split, 2, {.start = i, .stop = i + 1}), 2), 1, 2); };  // (B, H, T, D)
  const Tensor mixed = scaled_dot_product_attention(part(0), part(1), part(2), how);
  return reshape(transpose(mixed, 1, 2), {batch, length, width});
}

}  // namespace heddle::nn
