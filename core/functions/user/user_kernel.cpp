#include "heddle/core/functions/user/user_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "heddle/core/functions/user/user_body.h"
#include "heddle/core/functions/user/user_element.h"

namespace heddle {

UserKernel elementwise_kernel(UserElementwise definition) {
  return UserKernel(define_user_element(std::move(definition)));
}
UserKernel body_kernel(UserBody definition) { return UserKernel(define_user_body(std::move(definition))); }

const std::string& UserKernel::name() const { return definition_->name; }

std::vector<Tensor> UserKernel::call(std::span<const UserOperand> operands) const {
  const CallerScope scope(operands.empty() ? current_caller() : operands[0].caller);
  const auto& buffers = definition_->file.buffers;
  const size_t wanted =
      definition_->is_body()
          ? static_cast<size_t>(std::count_if(buffers.begin(), buffers.end(),
                                              [](const KernelBuffer& b) { return b.access == Access::read; }))
          : definition_->element.inputs.size();
  if (operands.size() != wanted)
    throw ValueError(fmt::format("[{}] {} arguments were given; it takes {}", name(), operands.size(), wanted));
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].tensor != nullptr && !operands[i].tensor->defined())
      throw ValueError(fmt::format("[{}] argument {} is an undefined tensor", name(), i));
  }
  return definition_->is_body() ? call_user_body(*definition_, operands) : call_user_element(*definition_, operands);
}

std::vector<Tensor> UserKernel::call(const std::vector<Tensor>& inputs, Caller caller) const {
  std::vector<UserOperand> operands;
  for (const Tensor& input : inputs) operands.emplace_back(input, caller);
  return call(operands);
}

Tensor UserKernel::operator()(UserOperand x) const { return only({&x, 1}); }
Tensor UserKernel::operator()(UserOperand x, UserOperand y) const { return only(std::array{x, y}); }
Tensor UserKernel::operator()(UserOperand x, UserOperand y, UserOperand z) const { return only(std::array{x, y, z}); }
Tensor UserKernel::operator()(UserOperand x, UserOperand y, UserOperand z, UserOperand w) const {
  return only(std::array{x, y, z, w});
}

Tensor UserKernel::only(std::span<const UserOperand> operands) const {
  const std::vector<Tensor> all = call(operands);
  if (all.size() != 1) throw ValueError(fmt::format("[{}] it has {} results; use call()", name(), all.size()));
  return all[0];
}

}  // namespace heddle
