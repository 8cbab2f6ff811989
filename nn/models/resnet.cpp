#include "heddle/nn/models/resnet.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/nn/models/conv_norm.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

const ResNetOptions& checked(const ResNetOptions& o) {
  if (o.blocks.empty() || std::ranges::any_of(o.blocks, [](int64_t n) { return n < 1; }))
    throw ValueError("[ResNet] each stage needs a block, and there must be a stage");
  checked_size("ResNet", "the number of stages", static_cast<int64_t>(o.blocks.size()), 16);  // each is twice as wide
  for (const int64_t blocks : o.blocks) checked_size("ResNet", "the number of a stage's blocks", blocks, most_layers);
  check_sizes("ResNet", {{"width", o.width}, {"classes", o.classes}});
  return o;
}

int64_t features(const ResNetOptions& o) {
  return (o.width << (o.blocks.size() - 1)) * (o.bottleneck ? ResNetBlock::expansion : 1);
}

}  // namespace

ResNetOptions resnet18(int64_t classes) { return {.classes = classes}; }
ResNetOptions resnet34(int64_t classes) { return {.blocks = {3, 4, 6, 3}, .classes = classes}; }
ResNetOptions resnet50(int64_t classes) { return {.blocks = {3, 4, 6, 3}, .bottleneck = true, .classes = classes}; }

void ResNetBlock::append(int64_t in, int64_t out, int64_t kernel, int64_t stride, const ParameterOptions& p) {
  const size_t number = layers_.size() + 1;
  const Conv2d conv =
      add(fmt::format("conv{}", number), padded_conv({.in = in, .out = out, .kernel = kernel, .stride = stride}, p));
  layers_.emplace_back(conv, add(fmt::format("bn{}", number), BatchNorm(out, {.device = p.device})));
}

ResNetBlock::ResNetBlock(int64_t in, int64_t width, const ResNetBlockOptions& o, const ParameterOptions& p)
    : Module("ResNetBlock") {
  const int64_t out = checked_size("ResNetBlock", "width", width) * (o.bottleneck ? expansion : 1);
  if (o.bottleneck) append(in, width, 1, 1, p);
  append(o.bottleneck ? width : in, width, 3, o.stride, p);
  append(width, out, o.bottleneck ? 1 : 3, 1, p);
  if (o.stride != 1 || in != out)
    downsample_ = std::make_shared<Sequential>(
        add("downsample", conv_norm({.in = in, .out = out, .kernel = 1, .stride = o.stride}, p)));
}

Tensor ResNetBlock::forward(const Tensor& x) {
  Tensor y = x;
  for (size_t i = 0; i < layers_.size(); ++i) {
    auto& [conv, norm] = layers_[i];
    y = norm(conv(i == 0 ? y : relu(y)));
  }
  return relu(y + (downsample_ ? (*downsample_)(x) : x));
}

ResNet::ResNet(const ResNetOptions& o, const ParameterOptions& p)
    : Module("ResNet"),
      small_input_(checked(o).small_input),
      conv1_(
          add("conv1",
              padded_conv(
                  {.in = o.channels, .out = o.width, .kernel = o.small_input ? 3 : 7, .stride = o.small_input ? 1 : 2},
                  p))),
      bn1_(add("bn1", BatchNorm(o.width, {.device = p.device}))),
      fc_(features(o), o.classes, {.device = p.device, .generator = p.generator}) {
  int64_t in = o.width, width = o.width;
  for (size_t s = 0; s < o.blocks.size(); ++s, width *= 2) {
    Sequential stage;
    for (int64_t b = 0; b < o.blocks[s]; ++b) {
      stage.append(ResNetBlock(in, width, {.stride = s > 0 && b == 0 ? 2 : 1, .bottleneck = o.bottleneck}, p));
      in = o.bottleneck ? width * ResNetBlock::expansion : width;
    }
    stages_.push_back(add(fmt::format("layer{}", s + 1), stage));
  }
  add("fc", fc_);
}

Tensor ResNet::forward(const Tensor& images) {
  Tensor x = relu(bn1_(conv1_(images)));
  if (!small_input_) x = max_pool2d(x, {3}, {.stride = {2}, .padding = {1}});
  for (Sequential& stage : stages_) x = stage(x);
  return fc_(mean(x, {-2, -1}));
}

}  // namespace heddle::nn
