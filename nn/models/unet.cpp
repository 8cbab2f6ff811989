#include "heddle/nn/models/unet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

const UNetOptions& checked(const UNetOptions& o) {
  if (o.multipliers.empty() || std::ranges::any_of(o.multipliers, [](int64_t m) { return m < 1; }))
    throw ValueError("[UNet] there must be a level, and multipliers are positive");
  for (const int64_t m : o.multipliers) checked_size("UNet", "a multiplier", m);
  check_sizes("UNet", {{"in", o.in}, {"out", o.out}, {"width", o.width}});
  if (o.groups < 1 || o.width < 1 || o.width % o.groups != 0)
    throw ValueError(fmt::format("[UNet] {} groups do not divide the width {}", o.groups, o.width));
  if (o.time && o.width % 2 != 0)
    throw ValueError(fmt::format("[UNet] with time the width must be even, not {}", o.width));
  return o;
}

Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, const ParameterOptions& p) {
  return Conv2d(in, out, {kernel},
                {.stride = {stride}, .padding = {kernel / 2}, .device = p.device, .generator = p.generator});
}

int64_t time_width(const UNetOptions& o) { return 4 * o.width; }

}  // namespace

UNetBlock::UNetBlock(int64_t in, int64_t out, const UNetOptions& o, const ParameterOptions& p)
    : Module("UNetBlock"),
      norm1_(add("norm1", GroupNorm(o.groups, in, {.device = p.device}))),
      conv1_(add("conv1", conv(in, out, 3, 1, p))),
      norm2_(add("norm2", GroupNorm(o.groups, out, {.device = p.device}))),
      drop_(add("drop", Dropout(o.dropout, {.generator = p.generator}))),
      conv2_(add("conv2", conv(out, out, 3, 1, p))) {
  if (o.time)
    time_ = std::make_shared<Linear>(
        add("time", Linear(time_width(o), out, {.device = p.device, .generator = p.generator})));
  if (in != out) skip_ = std::make_shared<Conv2d>(add("skip", conv(in, out, 1, 1, p)));
}

Tensor UNetBlock::run(const Tensor& x, const Tensor& time) {
  Tensor y = conv1_(silu(norm1_(x)));
  if (time_) y = y + unsqueeze(unsqueeze((*time_)(silu(time)), -1), -1);  // (N, C, 1, 1)
  y = conv2_(drop_(silu(norm2_(y))));
  return y + (skip_ ? (*skip_)(x) : x);
}

UNet::UNet(const UNetOptions& o, const ParameterOptions& p)
    : Module("UNet"),
      options_(checked(o)),
      stem_(add("stem", conv(o.in, o.width, 3, 1, p))),
      middle_(o.width * o.multipliers.back(), o.width * o.multipliers.back(), o, p),
      norm_(o.groups, o.width * o.multipliers.front(), {.device = p.device}),
      head_(conv(o.width * o.multipliers.front(), o.out, 3, 1, p)) {
  if (o.time) {
    time_ = std::make_shared<Sequential>(
        add("time", Sequential{Linear(o.width, time_width(o), {.device = p.device, .generator = p.generator}), SiLU(),
                               Linear(time_width(o), time_width(o), {.device = p.device, .generator = p.generator})}));
  }
  int64_t in = o.width;
  for (size_t level = 0; level < o.multipliers.size(); ++level) {
    const int64_t out = o.width * o.multipliers[level];
    down_.push_back(add(fmt::format("down{}", level), UNetBlock(in, out, o, p)));
    if (level + 1 < o.multipliers.size())
      shrink_.push_back(add(fmt::format("shrink{}", level), conv(out, out, 3, 2, p)));
    in = out;
  }
  add("middle", middle_);
  for (size_t level = o.multipliers.size(); level-- > 0;) {
    const int64_t out = o.width * o.multipliers[level];
    up_.push_back(add(fmt::format("up{}", level), UNetBlock(in + out, out, o, p)));
    in = out;
  }
  add("norm", norm_);
  add("head", head_);
}

// Sines and cosines of the step, of wavelengths from 2 pi to 10,000 times that, through two layers.
Tensor UNet::embed(const Tensor& step) {
  const int64_t half = options_.width / 2;
  const Tensor frequencies = exp(arange(0, static_cast<double>(half), 1, DType::f32, &step.device()) *
                                 (-std::log(10000.0) / static_cast<double>(half)));
  const Tensor angles = unsqueeze(cast(step, DType::f32), 1) * frequencies;  // (N, width / 2)
  return (*time_)(concat({sin(angles), cos(angles)}, 1));
}

Tensor UNet::compute(const Tensor& images, const Tensor& time) {
  if (images.rank() != 4 || images.dim(1) != options_.in)
    throw ShapeError(fmt::format("[UNet] images are {}; expected (N, {}, H, W)", images.shape().str(), options_.in));
  Tensor x = stem_(images);
  std::vector<Tensor> seen;
  for (size_t level = 0; level < down_.size(); ++level) {
    x = down_[level].run(level == 0 ? x : shrink_[level - 1](x), time);
    seen.push_back(x);
  }
  x = middle_.run(x, time);
  for (UNetBlock& block : up_) {
    const Tensor& beside = seen.back();
    if (x.dim(-2) != beside.dim(-2) || x.dim(-1) != beside.dim(-1))
      x = interpolate(x, {.size = {beside.dim(-2), beside.dim(-1)}});
    x = block.run(concat({x, beside}, 1), time);
    seen.pop_back();
  }
  return head_(silu(norm_(x)));
}

Tensor UNet::run(const Tensor& images, const Tensor& step) {
  if (!time_) throw ValueError("[UNet] this network knows no time; make it with UNetOptions::time");
  if (step.rank() != 1 || step.dim(0) != images.dim(0))
    throw ShapeError(
        fmt::format("[UNet] steps are {}; there must be one for each of {} images", step.shape().str(), images.dim(0)));
  return compute(images, embed(step));
}

Tensor UNet::forward(const Tensor& images) {
  if (time_) throw ValueError("[UNet] this network needs the step of each image: run(images, step)");
  return compute(images, {});
}

}  // namespace heddle::nn
