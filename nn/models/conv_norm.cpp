#include "nn/models/conv_norm.h"

namespace heddle::nn {

Conv2d padded_conv(const ConvSize& s, DeviceContext* device, Generator* generator) {
  ConvOptions how;
  how.stride = {s.stride};
  how.padding = {s.kernel / 2};
  how.groups = s.groups;
  Conv2d conv(s.in, s.out, {s.kernel}, how, false, device, generator);
  init::kaiming_normal(conv.weight, 0, init::Fan::out, generator);
  return conv;
}

}  // namespace heddle::nn
