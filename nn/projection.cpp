#include "heddle/nn/projection.h"

#include <fmt/format.h>

#include "heddle/autograd/custom.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/linalg/packed.h"

namespace heddle::nn {
namespace {

constexpr std::string_view packed_kind = "Packed ";

std::string kind_of(const Weight& weight) {
  return weight.packed ? fmt::format("{}{}", packed_kind, block_of(*weight.packed).name) : "Projection";
}

// Rounding is a step, whose own derivative is 0.
Tensor rounded(const Tensor& x, GgmlType type) {
  return straight_through([type](const Tensor& wide) { return rounded_to_8_bits(wide, type); })(cast(x, DType::f32));
}

}  // namespace

Projection::Projection(Weight given, const Shape& shape, const Tensor& given_bias)
    : Module(kind_of(given)), packed_(given.packed), rounds_(given.rounds) {
  const Shape expected = packed_ ? packed_shape(shape, *packed_) : shape;
  if (given.values.shape() != expected) {
    throw ShapeError(fmt::format("[Projection] the weight is {}, expected {}{}", given.values.shape().str(),
                                 expected.str(), packed_ ? fmt::format(" in {}", block_of(*packed_).name) : ""));
  }
  if (packed_ ? given.values.dtype() != DType::u8 : !is_float(given.values.dtype()))
    throw DTypeError(fmt::format("[Projection] the weight is {}, expected {}", name_of(given.values.dtype()),
                                 packed_ ? "u8" : "a floating dtype"));
  weight = packed_ ? add_buffer("weight", given.values) : add_parameter("weight", given.values);
  if (!given_bias.defined()) return;
  if (given_bias.shape() != Shape{shape[0]} || !is_float(given_bias.dtype()))
    throw ShapeError(fmt::format("[Projection] the bias is {} {}, expected floating ({})", given_bias.shape().str(),
                                 name_of(given_bias.dtype()), shape[0]));
  bias = add_parameter("bias", given_bias);
}

Tensor Projection::forward(const Tensor& x) {
  const Tensor y =
      packed_ ? matmul_packed(rounds_ ? rounded(x, *packed_) : x, weight, *packed_) : matmul(x, transpose(weight));
  return bias.defined() ? y + bias : y;
}

Tensor Projection::rows(const Tensor& indices) const {
  return packed_ ? unpack_blocks(take(weight, indices, 0), *packed_) : embedding(weight, indices);
}

std::optional<GgmlType> packed_type_of(const Module& module) {
  const std::string_view kind = module.kind();
  if (!kind.starts_with(packed_kind)) return std::nullopt;
  const GgmlBlock* const block = find_block(kind.substr(packed_kind.size()));
  return block == nullptr ? std::nullopt : std::optional(block->type);
}

}  // namespace heddle::nn
