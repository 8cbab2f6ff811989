// Elementwise kernels of users: definition and calls. Internal to core.
//
// Thread safety: recording is per thread.
#pragma once

#include "heddle/core/functions/user/user_definition.h"

namespace heddle {

const UserDefinition* define_user_element(UserElementwise element);
std::vector<Tensor> call_user_element(const UserDefinition& definition, std::span<const UserOperand> operands);

}  // namespace heddle
