#include "heddle/nn/models/conv_norm.h"

namespace heddle::nn {

Conv2d padded_conv(const ConvSize& s, const ParameterOptions& p) {
  Conv2d conv(s.in, s.out, {s.kernel},
              {.stride = {s.stride},
               .padding = {s.kernel / 2},
               .groups = s.groups,
               .bias = false,
               .device = p.device,
               .generator = p.generator});
  init::kaiming_normal(conv.weight, 0, init::Fan::out, p.generator);
  return conv;
}

}  // namespace heddle::nn
