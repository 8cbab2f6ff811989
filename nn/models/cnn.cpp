#include "nn/models/cnn.h"

namespace heddle::nn {
namespace {

Sequential make_features(const CnnOptions& o, DeviceContext* device, Generator* generator) {
  if (o.widths.empty()) throw ValueError("[Cnn] no stages: widths is empty");
  Sequential features;
  int64_t in = o.channels;
  for (const int64_t out : o.widths) {
    ConvOptions how;
    how.stride = {2};
    how.padding = {1};
    // Batch norm removes the mean: a bias before it would do nothing.
    features.append(Conv2d(in, out, {3}, how, false, device, generator));
    features.append(BatchNorm(out, 1e-5, 0.1, true, device));
    features.append(ReLU());
    in = out;
  }
  return features;
}

}  // namespace

Cnn::Cnn(const CnnOptions& o, DeviceContext* device, Generator* generator)
    : Module("Cnn"),
      features_(add("features", make_features(o, device, generator))),
      head_(add("head", Linear(o.widths.back(), o.classes, true, device, generator))) {}

Tensor Cnn::forward(const Tensor& images) { return head_(mean(features_(images), {-2, -1})); }

}  // namespace heddle::nn
