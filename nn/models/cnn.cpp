#include "heddle/nn/models/cnn.h"

#include "heddle/core/device/context.h"

namespace heddle::nn {
namespace {

Sequential make_features(const CnnOptions& o, const ParameterOptions& p) {
  if (o.widths.empty()) throw ValueError("[Cnn] no stages: widths is empty");
  Sequential features;
  int64_t in = o.channels;
  for (const int64_t out : o.widths) {
    // Batch norm removes the mean: a bias before it would do nothing.
    features.append(Conv2d(
        in, out, {3}, {.stride = {2}, .padding = {1}, .bias = false, .device = p.device, .generator = p.generator}));
    features.append(BatchNorm(out, {.device = p.device}));
    features.append(ReLU());
    in = out;
  }
  return features;
}

}  // namespace

Cnn::Cnn(const CnnOptions& o, const ParameterOptions& p)
    : Module("Cnn"),
      features_(add("features", make_features(o, p))),
      head_(add("head", Linear(o.widths.back(), o.classes, {.device = p.device, .generator = p.generator}))) {}

Tensor Cnn::forward(const Tensor& images) { return head_(mean(features_(images), {-2, -1})); }

}  // namespace heddle::nn
