#include "heddle/nn/activations.h"

#include "heddle/core/base/error.h"

namespace heddle::nn {

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::silu:
      return silu(x);
    case Activation::tanh:
      return tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
  }
  throw ValueError("[activate] this activation is not known");
}

}  // namespace heddle::nn
