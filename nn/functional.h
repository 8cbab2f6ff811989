// Modules as functions of their parameters, for transforms.
//
//   const std::vector<Tensor> parameters = detached(model.parameters());
//   auto loss = [&](const std::vector<Tensor>& p, const Tensor& x, const Tensor& y) { return
//   cross_entropy(nn::functional_call(model, p, x), y); }; auto each = vmap(grad(loss), {std::nullopt, 0,
//   0})(parameters, xs, ys);          // per-example gradients
//
// Purpose: functional_call(module, parameters, x...) gives what module(x...) would with other tensors in the place of
// its parameters. They are given as a list in the order of parameters(), or by path as in state_dict() (buffers too);
// paths that are left out keep their tensor. Invariants: the module is as before afterwards, also when its forward()
// throws; what forward() assigns to a tensor that was replaced is dropped. Errors: ValueError for a wrong number or an
// unknown path, ShapeError and DTypeError for a tensor that does not fit. Thread safety: none; one thread runs a
// module.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle::nn {

// The tensors without gradient history, as arguments of a transform.
std::vector<Tensor> detached(const std::vector<Tensor>& tensors);

namespace detail {
// While alive, tensors of a module stand for others.
class Replaced {
 public:
  Replaced(const Module& module, const std::vector<Tensor>& parameters);
  Replaced(const Module& module, const StateDict& state);
  ~Replaced();
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  void replace(const std::string& name, const Tensor& tensor, const Tensor& by);
  std::vector<std::pair<std::shared_ptr<TensorImpl>, NodePtr>> before_;
};

template <class M, class... Args>
auto call(M& module, const Args&... args) {
  if constexpr (requires { module(args...); })
    return module(args...);
  else
    return module.forward(args...);
}
}  // namespace detail

template <class M, class... Args>
auto functional_call(M& module, const std::vector<Tensor>& parameters, const Args&... args) {
  const detail::Replaced scope(module, parameters);
  return detail::call(module, args...);
}
template <class M, class... Args>
auto functional_call(M& module, const StateDict& state, const Args&... args) {
  const detail::Replaced scope(module, state);
  return detail::call(module, args...);
}

}  // namespace heddle::nn
