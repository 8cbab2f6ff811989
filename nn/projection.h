// Projection: a linear layer whose weight may be packed in blocks, as GGUF files hold it.
//
// Purpose: one layer for models that are trained in floating point and used with weights of 4 to 8 bits. Invariants:
// modules are handles (nn/module.h). A packed weight is a buffer "weight" of bytes, (out, bytes of a row) u8, and is
// not trained; any other is a parameter "weight" (out, in). Where there is a bias, it is a parameter "bias" (out).
// Where inputs are rounded to 8 bits, their gradient is that of the product with them as they are. Errors: ShapeError
// and DTypeError for weights that are neither, ShapeError for inputs that do not fit. Thread safety: none.
#pragma once

#include <optional>
#include <string>

#include "heddle/core/base/callable.h"
#include "heddle/core/base/ggml_types.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

// A matrix (out, in), or for a norm or a bias a vector.
struct Weight {
  Tensor values;                   // floating; packed: whole blocks, (out, bytes of a row) u8
  std::optional<GgmlType> packed;  // how; none for floating values
  bool rounds = false;             // packed: inputs are rounded to 8 bits (rounded_to_8_bits())
};
// The weight of a name and a shape: where a model's first values come from. The shape is that of the values that are
// meant, packed or not.
using WeightSource = Callable<Weight(const std::string& name, const Shape& shape)>;

// y = x W^T + bias; x (..., in) -> (..., out).
class Projection : public Module {
 public:
  Projection(Weight weight, const Shape& shape, const Tensor& bias = {});
  Tensor forward(const Tensor& x) override;
  // The rows that indices name, as f32 or the weight's dtype: a table of embeddings.
  Tensor rows(const Tensor& indices) const;

  Tensor weight;
  Tensor bias;  // undefined without one
  std::optional<GgmlType> packed() const { return packed_; }
  // The dtype of what it gives for an input in f32.
  DType dtype() const { return packed_ ? DType::f32 : weight.dtype(); }

 private:
  std::optional<GgmlType> packed_;
  bool rounds_;
};

// How a Projection's weight is packed, by a handle without its class: its kind says it ("Packed Q4_0"). None for
// floating weights and other modules.
std::optional<GgmlType> packed_type_of(const Module& module);

}  // namespace heddle::nn
