// KvCache: what earlier positions computed, in tensors of fixed shapes that are updated in place.
//
// Purpose: generation (nn/decoder.h) computes one position a step. In the dtype of the model's activations or weights,
// so with weights in 16 bits (Module::to) the cache takes 16 as well; products, norms and logits are f32 all the same.
// Thread safety: a value.
#pragma once

#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

struct KvCache {
  std::vector<Tensor> layers;  // (B, 2, heads of keys, context, size of a head): keys, then values
  Tensor length;               // (1) i32: positions held, the same in every row
};

}  // namespace heddle::nn
