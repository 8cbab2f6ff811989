// Layers: Linear, Dropout, Flatten, Sequential and the activations as modules.
//
// Purpose: the parts a network is made of.
// Invariants: modules are handles (nn/module.h): a layer put into a Sequential shares its parameters with the original.
// Thread safety: none.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <vector>

#include "nn/init.h"
#include "nn/module.h"

namespace heddle::nn {

// y = x W^T + b; x (..., in), W (out, in), b (out). First values as PyTorch: both uniform in +-1/sqrt(in).
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, bool bias = true, DeviceContext* device = nullptr, Generator* generator = nullptr);
  // Over a weight (out, in) that is there, such as an embedding's, and an undefined bias or one (out): parameters of
  // several modules are shared, not copied.
  explicit Linear(const Tensor& weight, const Tensor& bias = {});
  Tensor forward(const Tensor& x) override;

  Tensor weight;
  Tensor bias;  // undefined without bias
};

// In training: zeroes each element with probability p and scales the others by 1 / (1 - p). Otherwise x.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
  Generator* generator_;
};

// (N, ...) -> (N, product of the rest). With start: the axes from there on become one.
class Flatten : public Module {
 public:
  explicit Flatten(int start = 1);
  Tensor forward(const Tensor& x) override;

 private:
  int start_;
};

// The elementwise functions of core as modules.
#define HEDDLE_ACTIVATION(Class)              \
  class Class : public Module {               \
   public:                                    \
    Class() : Module(#Class) {}               \
    Tensor forward(const Tensor& x) override; \
  };
HEDDLE_ACTIVATION(ReLU)
HEDDLE_ACTIVATION(GELU)
HEDDLE_ACTIVATION(SiLU)
HEDDLE_ACTIVATION(Tanh)
HEDDLE_ACTIVATION(Sigmoid)
HEDDLE_ACTIVATION(Softplus)
#undef HEDDLE_ACTIVATION

// Softmax along an axis.
class Softmax : public Module {
 public:
  explicit Softmax(int axis = -1) : Module("Softmax"), axis_(axis) {}
  Tensor forward(const Tensor& x) override;

 private:
  int axis_;
};

// Modules one after the other, named "0", "1", ...:
//   nn::Sequential model{nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10)};
// Sequential(other) is another handle of `other`; a Sequential whose only part so far is one takes append().
class Sequential : public Module {
 public:
  template <std::derived_from<Module>... Layers>
  explicit Sequential(Layers... layers) : Module("Sequential") {
    (append(std::move(layers)), ...);
  }
  template <std::derived_from<Module> M>
  Sequential& append(M layer) {
    add(std::to_string(layers_->size()), layer);
    layers_->push_back(std::make_shared<M>(std::move(layer)));
    return *this;
  }
  Tensor forward(const Tensor& x) override;
  size_t size() const { return layers_->size(); }

 private:
  std::shared_ptr<std::vector<std::shared_ptr<Module>>> layers_ =
      std::make_shared<std::vector<std::shared_ptr<Module>>>();
};

}  // namespace heddle::nn
