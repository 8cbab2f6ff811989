// Module: a part of a network: named parameters, named buffers, children, and a training flag.
//
// Purpose: a network is an ordinary C++ class:
//   struct Mlp : nn::Module {
//     nn::Linear fc1 = add("fc1", nn::Linear(784, 128));
//     nn::Linear fc2 = add("fc2", nn::Linear(128, 10));
//     Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
//   };
//
// Invariants: a Module is a handle: copies share parameters, children and flags. Names are unique within a module and
// hold no dot; a path joins them with dots ("fc1.weight"). Order is the order of registration. A module with parameters
// to train that another one's forward calls without having added it is named on stderr, once: it would be neither
// trained, saved nor moved. Thread safety: none; one thread builds and runs a module.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

using StateDict = std::map<std::string, Tensor>;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

class Module {
 public:
  explicit Module(std::string kind = "Module");
  virtual ~Module() = default;
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;

  // Networks with one input override this; others declare the calls that they need.
  virtual Tensor forward(const Tensor& x);
  // forward(), with the hooks around it. Notes where the call stands; forward() called by itself does not, and a layer
  // of the library then gives a place in the library.
  Tensor operator()(const Tensor& x, Caller caller = Caller::current());

  // Hooks run when this module is called as module(x), in the order of registration; what one returns (a defined
  // tensor) goes on instead. `module` is a handle without its class. Each registration gives a number for
  // remove_hook().
  using PreHook = Callable<Tensor(Module& module, const Tensor& x)>;                       // before forward
  using ForwardHook = Callable<Tensor(Module& module, const Tensor& x, const Tensor& y)>;  // after it
  using BackwardHook = Callable<Tensor(
      Module& module, const Tensor& gradient)>;  // with the gradient of the result, in each backward pass
  size_t register_forward_pre_hook(PreHook hook);
  size_t register_forward_hook(ForwardHook hook);
  size_t register_backward_hook(BackwardHook hook);
  void remove_hook(size_t number);  // ValueError for an unknown one

  // "Linear"; the class name that the constructor gave.
  const std::string& kind() const;

  // Everything below this module, with paths.
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  std::vector<Tensor> parameters() const;
  std::vector<std::pair<std::string, Module>> named_children() const;  // direct ones
  int64_t parameter_count() const;                                     // elements

  // Dropout and its like ask training(). train() and eval() reach all children.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool training() const;

  // Drops every parameter's gradient.
  void zero_grad();
  // Turns gradients of all parameters on or off.
  void requires_grad(bool on);
  // Moves parameters and buffers; handles that others hold (an optimizer's list) follow, as they share the parameter.
  // Gradients are dropped. An optimizer's state follows with its next update.
  void to(DeviceContext& device);
  void to(std::string_view device_id);
  // Casts floating parameters and buffers, for inference in 16 bits; handles follow, gradients are dropped. DTypeError
  // for a dtype that is no float.
  void to(DType dtype);
  // Calls f(path, module) for this module (path "") and everything below, children first. The Module is a handle
  // without its class.
  void apply(const Callable<void(const std::string& path, Module& module)>& f);

  // Parameters and buffers by path; the tensors are shared, not copied.
  StateDict state_dict() const;
  // Copies values in. Strict: ValueError that lists missing and unexpected names, ShapeError / DTypeError that lists
  // those that do not fit (nn/weights.h loads what fits). Nothing is changed when it throws. Values are moved to the
  // parameter's device.
  void load_state_dict(const StateDict& state);

 protected:
  // Registers a leaf that collects a gradient; returns the shared handle.
  Tensor add_parameter(const std::string& name, Tensor value);
  // Registers a tensor that is saved and moved but not trained.
  Tensor add_buffer(const std::string& name, Tensor value);
  // Registers a child and hands it back: fc1 = add("fc1", nn::Linear(784, 128)).
  template <class M>
  M add(const std::string& name, M child) {
    attach(name, child);
    return child;
  }

 private:
  struct State;  // nn/module.cpp
  class CallScope;
  explicit Module(std::shared_ptr<State> state);
  void note_call(const Module& part) const;
  template <class Predicate>
  bool any_parameter(const Predicate& holds) const;
  bool holds(const Module& part) const;
  Tensor with_hooks(const Tensor& x);
  Tensor run_backward_hooks(const Tensor& cotangent) const;
  void attach(const std::string& name, const Module& child);
  void check_name(const std::string& name) const;
  void collect(const std::string& prefix, NamedTensors State::*list, NamedTensors& into) const;
  void apply_below(const std::string& path, const Callable<void(const std::string&, Module&)>& f);

  std::shared_ptr<State> state_;
};

}  // namespace heddle::nn
