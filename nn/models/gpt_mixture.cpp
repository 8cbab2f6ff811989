#include "heddle/nn/models/gpt_mixture.h"

namespace heddle::nn {

MixtureOptions mixture_options(const GptOptions& o, const ParameterOptions& p) {
  return {.experts = o.experts,
          .top_k = o.top_k,
          .capacity_factor = o.capacity_factor,
          .activation = o.tanh_gelu ? Activation::gelu_tanh : Activation::gelu,
          .device = p.device,
          .generator = p.generator};
}

}  // namespace heddle::nn
