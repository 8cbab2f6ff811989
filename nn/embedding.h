// Embedding and embedding bags.
//
// Purpose: tables of vectors. Invariants: modules are handles (nn/module.h); "weight" (rows, width) is drawn from a
// normal distribution of mean 0 and deviation 1, as PyTorch's. Indices are i32 or i64. Errors: ValueError for sizes,
// those of the functions. Thread safety: none.
#pragma once

#include <optional>

#include "core/functions/functions.h"
#include "core/functions/nn/bags.h"
#include "nn/module.h"

namespace heddle::nn {

class Embedding : public Module {
 public:
  // The row `padding` starts as zeros and gets no gradient.
  Embedding(int64_t rows, int64_t width, std::optional<int64_t> padding = {}, DeviceContext* device = nullptr,
            Generator* generator = nullptr);
  Tensor forward(const Tensor& indices) override;

  Tensor weight;

 private:
  std::optional<int64_t> padding_;
};

class EmbeddingBag : public Module {
 public:
  EmbeddingBag(int64_t rows, int64_t width, BagMode mode = BagMode::mean, DeviceContext* device = nullptr,
               Generator* generator = nullptr);
  Tensor forward(const Tensor& indices) override { return embedding_bag(indices, weight, mode_); }  // (B, L)
  Tensor run(const Tensor& indices, const Tensor& offsets, const Tensor& weights = {},
             Caller caller = Caller::current()) const {
    return embedding_bag(indices, offsets, weight, mode_, weights, caller);
  }

  Tensor weight;

 private:
  BagMode mode_;
};

}  // namespace heddle::nn
