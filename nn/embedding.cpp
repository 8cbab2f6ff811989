#include "heddle/nn/embedding.h"

#include <fmt/format.h>

#include "heddle/core/device/context.h"
#include "heddle/nn/pool.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

Tensor table(const char* who, int64_t rows, int64_t width, const EmbeddingOptions& o) {
  const std::optional<int64_t>& padding = o.padding;
  if (rows < 1 || width < 1)
    throw ValueError(fmt::format("[{}] {} rows of {}; both must be positive", who, rows, width));
  if (padding && (*padding < 0 || *padding >= rows))
    throw ValueError(fmt::format("[{}] padding is {}; it must be one of the {} rows", who, *padding, rows));
  const Tensor drawn = normal(parameter_shape(who, {rows, width}), 0, 1, o.device, o.generator);
  if (!padding) return drawn;
  const DType dtype = rows <= most_size ? DType::i32 : DType::i64;
  const Tensor numbers = reshape(arange(0, static_cast<double>(rows), 1, dtype, &drawn.device()), {rows, 1});
  return drawn * cast(numbers != static_cast<double>(*padding), DType::f32);
}

}  // namespace

Embedding::Embedding(int64_t rows, int64_t width, const EmbeddingOptions& o)
    : Module("Embedding"), padding_(o.padding) {
  weight = add_parameter("weight", table("Embedding", rows, width, o));
}

Tensor Embedding::forward(const Tensor& indices) {
  const Tensor rows = embedding(weight, indices);
  if (!padding_) return rows;
  return where(unsqueeze(indices == static_cast<double>(*padding_), -1), stop_gradient(rows), rows);
}

EmbeddingBag::EmbeddingBag(int64_t rows, int64_t width, const EmbeddingBagOptions& o)
    : Module("EmbeddingBag"), mode_(o.mode) {
  weight = add_parameter("weight", table("EmbeddingBag", rows, width, {.device = o.device, .generator = o.generator}));
}

}  // namespace heddle::nn
