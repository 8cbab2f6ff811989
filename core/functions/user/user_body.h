// Whole bodies of users: what kernels (core/functions/user/user_kernel.h), the reference and lowering share.
// Internal to core. Thread safety: recording is per thread; the others are pure.
#pragma once

#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/functions/user/user_definition.h"

namespace heddle {

// ValueError also for a text that does not parse, with its line.
const UserDefinition* define_user_body(UserBody body);
std::vector<Tensor> call_user_body(const UserDefinition& definition, std::span<const UserOperand> operands);
// The kernel for inputs of these types. Several results are stored into one buffer, `t_flat`, each from element
// `t_part...` on, constants behind those of the text.
KernelSource user_body_source(const UserDefinition& definition, std::span<const TensorType> inputs, DType result);
// The whole constants by name, from their bits in the order of the text.
Bindings user_body_constants(const KernelFile& file, std::span<const int64_t> bits);

}  // namespace heddle
