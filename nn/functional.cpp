#include "heddle/nn/functional.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/graph/node.h"

namespace heddle::nn {

std::vector<Tensor> detached(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.detach());
  return all;
}

namespace detail {

Replaced::Replaced(const Module& module, const std::vector<Tensor>& parameters) {
  const std::vector<Tensor> own = module.parameters();
  if (own.size() != parameters.size()) {
    throw ValueError(fmt::format("[functional_call] {} has {} parameters, but {} tensors were given", module.kind(),
                                 own.size(), parameters.size()));
  }
  for (size_t i = 0; i < own.size(); ++i) replace(fmt::format("parameter {}", i), own[i], parameters[i]);
}

Replaced::Replaced(const Module& module, const StateDict& state) {
  const StateDict own = module.state_dict();
  for (const auto& [name, by] : state) {
    const auto found = own.find(name);
    if (found == own.end())
      throw ValueError(fmt::format("[functional_call] {} has no parameter or buffer '{}'", module.kind(), name));
    replace(name, found->second, by);
  }
}

void Replaced::replace(const std::string& name, const Tensor& tensor, const Tensor& by) {
  // Reading it first tells compile() what it was before.
  const auto fail = [&](auto error) {
    for (auto at = before_.rbegin(); at != before_.rend(); ++at) at->first->set_node(at->second);
    throw error;
  };
  const auto show = [](const Tensor& x) { return fmt::format("{} {}", x.shape().str(), name_of(x.dtype())); };
  const NodePtr own = tensor.node();
  if (!by.defined()) fail(ValueError(fmt::format("[functional_call] the tensor for {} is an empty handle", name)));
  if (by.shape() != own->shape)
    fail(ShapeError(
        fmt::format("[functional_call] {} is {}, but the tensor for it is {}", name, show(tensor), show(by))));
  if (by.dtype() != own->dtype)
    fail(DTypeError(
        fmt::format("[functional_call] {} is {}, but the tensor for it is {}", name, show(tensor), show(by))));
  before_.emplace_back(tensor.impl(), own);
  tensor.impl()->set_node(by.node());
}

Replaced::~Replaced() {
  for (auto at = before_.rbegin(); at != before_.rend(); ++at) at->first->set_node(at->second);
}

}  // namespace detail
}  // namespace heddle::nn
