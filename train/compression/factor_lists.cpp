#include "heddle/train/compression/factor_lists.h"

#include "heddle/core/functions/functions.h"
#include "heddle/train/compression/eight_bits.h"
#include "heddle/train/compression/flat_parts.h"

namespace heddle::train {
namespace {

constexpr int along_column = 1;

FactorLists::Sent send_bytes(const std::vector<Tensor>& factors) {
  std::vector<Tensor> values, scales;
  FactorLists::Sent sent;
  for (const Tensor& factor : factors) {
    const EightBits bits = in_eight_bits(factor, along_column);
    values.push_back(bits.values);
    scales.push_back(bits.scales);
    sent.taken.push_back(bits.restored());
  }
  sent.lists = {joined(values).to(DType::i8), joined(scales)};
  return sent;
}

// From place `at` on of each rank's list (ranks, n): (ranks, count, length, rank).
Tensor next(const Tensor& lists, const Shape& shape, int64_t& at) {
  const int64_t begin = at, ranks = lists.dim(0);
  at += shape.numel();
  const Tensor part = slice(lists, 1, {.start = begin, .stop = at});
  return reshape(part, Shape{ranks, shape[0], shape[1], shape[2]});
}

}  // namespace

FactorLists::Sent FactorLists::send(const std::vector<Tensor>& factors) const {
  if (in_bytes_) return send_bytes(factors);
  Sent sent{.lists = {joined(factors).to(DType::bf16)}, .taken = {}};
  for (const Tensor& factor : factors) sent.taken.push_back(factor.to(DType::bf16).to(DType::f32));
  return sent;
}

std::vector<Tensor> FactorLists::sums(const std::vector<Tensor>& brought, const std::vector<Shape>& shapes) const {
  if (!in_bytes_) return parted(brought.at(0), shapes);
  std::vector<Tensor> found;
  int64_t value = 0, scale = 0;
  for (const Shape& shape : shapes) {
    const EightBits bits{next(brought.at(0), shape, value), next(brought.at(1), Shape{shape[0], 1, shape[2]}, scale)};
    found.push_back(sum(bits.restored(), {0}));
  }
  return found;
}

}  // namespace heddle::train
