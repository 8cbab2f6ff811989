#include "heddle/nn/models/mlp.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"

namespace heddle::nn {

void append_activation(Sequential& to, Activation activation) {
  switch (activation) {
    case Activation::relu:
      to.append(ReLU());
      break;
    case Activation::gelu:
      to.append(GELU());
      break;
    case Activation::silu:
      to.append(SiLU());
      break;
    case Activation::tanh:
      to.append(Tanh());
      break;
    case Activation::sigmoid:
      to.append(Sigmoid());
      break;
  }
}

Mlp::Mlp(const MlpOptions& o, const ParameterOptions& p) {
  int64_t in = o.in;
  for (const int64_t width : o.hidden) {
    if (width < 1) throw ValueError(fmt::format("[Mlp] the width of a hidden layer is {}; it must be positive", width));
    append(Linear(in, width, {.device = p.device, .generator = p.generator}));
    append_activation(*this, o.activation);
    if (o.dropout != 0) append(Dropout(o.dropout, {.generator = p.generator}));
    in = width;
  }
  append(Linear(in, o.out, {.device = p.device, .generator = p.generator}));
}

Tensor Mlp::forward(const Tensor& x) { return Sequential::forward(x.rank() > 2 ? Flatten()(x) : x); }

}  // namespace heddle::nn
