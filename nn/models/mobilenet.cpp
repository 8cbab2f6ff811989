#include "heddle/nn/models/mobilenet.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/nn/activations.h"
#include "heddle/nn/models/conv_norm.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

class InvertedResidual : public Module {
 public:
  InvertedResidual(int64_t in, int64_t out, int64_t expansion, int64_t stride, const ParameterOptions& p)
      : Module("InvertedResidual"),
        adds_(stride == 1 && in == out),
        conv_(add("conv", make(in, out, expansion, stride, p))) {}
  Tensor forward(const Tensor& x) override { return adds_ ? x + conv_(x) : conv_(x); }

 private:
  static Sequential make(int64_t in, int64_t out, int64_t expansion, int64_t stride, const ParameterOptions& p) {
    const int64_t inside = in * expansion;
    Sequential layers;
    if (expansion != 1) layers.append(conv_norm({.in = in, .out = inside, .kernel = 1}, p, ReLU6()));
    layers.append(conv_norm({.in = inside, .out = inside, .stride = stride, .groups = inside}, p, ReLU6()));
    layers.append(padded_conv({.in = inside, .out = out, .kernel = 1}, p));
    layers.append(BatchNorm(out, {.device = p.device}));
    return layers;
  }

  bool adds_;
  Sequential conv_;
};

// The nearest multiple of 8 that is not below nine tenths of it.
int64_t scaled(int64_t channels, double width) {
  const double wanted = static_cast<double>(checked_size("MobileNetV2", "a number of channels", channels)) * width;
  if (wanted > static_cast<double>(most_size))
    throw ValueError(fmt::format("[MobileNetV2] {} channels times {} are too many", channels, width));
  const int64_t rounded = std::max<int64_t>(8, static_cast<int64_t>(wanted + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * wanted ? rounded + 8 : rounded;
}

const MobileNetV2Options& checked(const MobileNetV2Options& o) {
  if (!(o.width > 0) || o.classes < 1)
    throw ValueError(fmt::format("[MobileNetV2] sizes must be positive: width {}, classes {}", o.width, o.classes));
  for (const InvertedResiduals& stage : o.stages) {
    checked_size("MobileNetV2", "the number of a stage's blocks", stage.blocks, most_layers);
    checked_size("MobileNetV2", "the expansion", stage.expansion);
  }
  return o;
}

int64_t last_channels(const MobileNetV2Options& o) { return scaled(o.last, std::max(1.0, o.width)); }

Sequential make_features(const MobileNetV2Options& o, const ParameterOptions& p) {
  int64_t in = scaled(o.first, o.width);
  Sequential features;
  features.append(conv_norm({.in = 3, .out = in, .stride = 2}, p, ReLU6()));
  for (const InvertedResiduals& stage : o.stages) {
    const int64_t out = scaled(stage.channels, o.width);
    for (int64_t b = 0; b < stage.blocks; ++b) {
      features.append(InvertedResidual(in, out, stage.expansion, b == 0 ? stage.stride : 1, p));
      in = out;
    }
  }
  features.append(conv_norm({.in = in, .out = last_channels(o), .kernel = 1}, p, ReLU6()));
  return features;
}

Linear make_head(const MobileNetV2Options& o, const ParameterOptions& p) {
  Linear head(last_channels(o), o.classes, {.device = p.device, .generator = p.generator});
  init::normal(head.weight, 0, 0.01, p.generator);
  init::zeros(head.bias);
  return head;
}

}  // namespace

std::vector<InvertedResiduals> MobileNetV2Options::usual_stages() {
  return {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
}

MobileNetV2::MobileNetV2(const MobileNetV2Options& o, const ParameterOptions& p)
    : Module("MobileNetV2"),
      features_(add("features", make_features(checked(o), p))),
      classifier_(add("classifier", Sequential{Dropout(o.dropout, {.generator = p.generator}), make_head(o, p)})) {}

Tensor MobileNetV2::forward(const Tensor& images) { return classifier_(mean(features_(images), {-2, -1})); }

}  // namespace heddle::nn
