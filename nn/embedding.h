// Embedding and embedding bags.
//
// Purpose: tables of vectors. Invariants: modules are handles (nn/module.h); "weight" (rows, width) is drawn from a
// normal distribution of mean 0 and deviation 1, as PyTorch's. Indices are i32 or i64. Errors: ValueError for sizes,
// those of the functions. Thread safety: none.
#pragma once

#include <optional>

#include "heddle/core/device/device_ref.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/bags.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

struct EmbeddingOptions {
  std::optional<int64_t> padding = {};  // a row that starts as zeros and gets no gradient
  DeviceRef device = {};
  Generator* generator = nullptr;  // null: the process's
};

class Embedding : public Module {
 public:
  Embedding(int64_t rows, int64_t width, const EmbeddingOptions& options = {});
  Tensor forward(const Tensor& indices) override;

  Tensor weight;

 private:
  std::optional<int64_t> padding_;
};

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  DeviceRef device = {};
  Generator* generator = nullptr;  // null: the process's
};

class EmbeddingBag : public Module {
 public:
  EmbeddingBag(int64_t rows, int64_t width, const EmbeddingBagOptions& options = {});
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
