// Whole bodies of users: what the calls (core/functions/user/user_kernel.cpp), the reference and lowering share.
// Internal to core. Thread safety: recording is per thread; the others are pure.
#pragma once

#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/functions/user/user_definition.h"

namespace heddle {

std::vector<Tensor> call_user_body(const UserDefinition& definition, std::span<const UserOperand> operands);
// The kernel for inputs of these types. Several results are stored into one buffer, `t_flat`, each from element
// `t_part...` on, constants behind those of the text.
KernelSource user_body_source(const UserDefinition& definition, std::span<const TensorType> inputs, DType result);
// The whole constants by name, from their bits in the order of the text.
Bindings user_body_constants(const KernelFile& file, std::span<const int64_t> bits);

// ---- of core/functions/user/user_kernel.cpp
void check_user_name(const std::string& name);
// ValueError on reference:0 for a kernel without a host function.
void check_user_host(DeviceContext& device, const UserDefinition& definition);
// Compiles a kernel that holds the user's text, once per device; UserKernelError with the line.
void compile_user_text(DeviceContext& device, const UserDefinition& definition, const KernelSource& source);
UserKernel publish_user_kernel(std::unique_ptr<UserDefinition> made, const OpDef& row, size_t outputs,
                               const std::string& contents);

}  // namespace heddle
