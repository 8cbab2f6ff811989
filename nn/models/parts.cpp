#include "heddle/nn/models/parts.h"

namespace heddle::nn {

Heads split_heads(const Tensor& joined, int64_t heads) {
  const int64_t batch = joined.dim(0), length = joined.dim(1), width = joined.dim(2) / 3;
  const Tensor split = reshape(joined, {batch, length, 3, heads, width / heads});  // (B, T, 3, H, D)
  const auto part = [&](int64_t i) {
    return transpose(squeeze(slice(split, 2, {.start = i, .stop = i + 1}), 2), 1, 2);
  };
  return {part(0), part(1), part(2)};
}

Tensor join_heads(const Tensor& mixed) {
  return reshape(transpose(mixed, 1, 2), {mixed.dim(0), mixed.dim(2), mixed.dim(1) * mixed.dim(3)});
}

Tensor self_attention(const Tensor& joined, int64_t heads, const AttentionOptions& how) {
  const auto [queries, keys, values] = split_heads(joined, heads);
  return join_heads(scaled_dot_product_attention(queries, keys, values, how));
}

}  // namespace heddle::nn
