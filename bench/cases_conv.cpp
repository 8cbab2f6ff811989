// conv: [x:|w:]NxCxHxWxOxKxS[/G]: conv2d of N images of C channels with O kernels of K x K, stride S, padding K / 2, in
// G groups of channels; x: its input gradient, w: its weight gradient. oneDNN computes in its own formats, as programs
// use it: inputs and weights were reordered before and the result stays as it is, so its time is the convolution alone;
// Heddle reads and writes plain NCHW. Results are compared after a reorder outside the measurement.
#include <fmt/format.h>

#include <algorithm>

#include "bench/peers/peers.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

constexpr std::string_view conv_form = "[x:|w:]NxCxHxWxOxKxS[/G]";

ConvShape parse_shape(const std::string& text) {
  ConvShape s;
  std::string rest = text;
  if (rest.starts_with("x:") || rest.starts_with("w:")) {
    s.pass = rest[0];
    rest = rest.substr(2);
  }
  if (const size_t slash = rest.find('/'); slash != std::string::npos) {
    s.groups = parse_sizes("conv", rest.substr(slash + 1), 1, conv_form)[0];
    rest.resize(slash);
  }
  const std::vector<int64_t> sizes = parse_sizes("conv", rest, 7, conv_form);
  s.n = sizes[0];
  s.c = sizes[1];
  s.h = sizes[2];
  s.w = sizes[3];
  s.o = sizes[4];
  s.kernel = sizes[5];
  s.stride = sizes[6];
  s.padding = s.kernel / 2;
  if (std::min(s.h, s.w) + 2 * s.padding < s.kernel)
    throw ValueError(fmt::format("[bench] conv case '{}': the kernel is larger than the image", text));
  if (s.c % s.groups != 0 || s.o % s.groups != 0)
    throw ValueError(fmt::format("[bench] conv case '{}': {} groups do not divide its channels", text, s.groups));
  return s;
}

Workload make_workload(const ConvShape& s, const Environment& env) {
  const Shape x_shape{s.n, s.c, s.h, s.w}, w_shape{s.o, s.c / s.groups, s.kernel, s.kernel},
      y_shape{s.n, s.o, s.out_h(), s.out_w()};
  const Shape& first = s.pass == 'x' ? y_shape : x_shape;
  const Shape& second = s.pass == 'w' ? y_shape : w_shape;
  const Bytes a = random_bytes(first.numel(), DType::f32, 1), b = random_bytes(second.numel(), DType::f32, 2);
  const auto tensor = [&](const Bytes& bytes, const Shape& shape) {
    return Tensor::from_bytes(bytes->data(), static_cast<size_t>(shape.numel()), DType::f32, shape, &env.device);
  };
  const Tensor ta = tensor(a, first), tb = tensor(b, second);
  Attrs attrs;
  attrs.ints = {0, s.groups, s.stride, s.stride, 1, 1, s.padding, s.padding};
  Workload w;
  w.run = [=, pass = s.pass] {
    return std::vector<Tensor>{pass == 'x'   ? conv::input_grad(ta, tb, attrs, x_shape)
                               : pass == 'w' ? conv::weight_grad(ta, tb, attrs, w_shape)
                                             : conv::forward(ta, tb, attrs, y_shape)};
  };
#ifdef HEDDLE_PEER_ONEDNN
  if (env.wants("onednn")) {
    if (std::optional<PeerCall> peer = onednn::conv(s, a, b)) w.peers.push_back(std::move(*peer));
  }
#endif
  return w;
}

Case parse_conv(const std::string& name, DType) {
  const ConvShape s = parse_shape(name);
  Case c;
  c.flops = 2.0 * static_cast<double>(s.n * s.o * s.out_h()) * static_cast<double>(s.out_w() * s.c / s.groups) *
            static_cast<double>(s.kernel * s.kernel);
  c.tensor({s.n, s.c, s.h, s.w}, DType::f32)
      .tensor({s.o, s.c / s.groups, s.kernel, s.kernel}, DType::f32)
      .tensor({s.n, s.o, s.out_h(), s.out_w()}, DType::f32);
  c.tolerance = 2e-5;  // of sums of up to 25088 products
  c.make = [s](const Environment& env) { return make_workload(s, env); };
  return c;
}

// The 3x3 layers and the 1x1 layers of ResNet-18 at batch 8, each with its two gradients.
std::vector<std::string> resnet18_layers() {
  std::vector<std::string> cases;
  for (const char* pass : {"", "x:", "w:"}) {
    for (const char* layer : {"8x64x56x56x64x3x1", "8x128x28x28x128x3x1", "8x256x14x14x256x3x1", "8x512x7x7x512x3x1",
                              "8x64x56x56x128x3x2", "8x128x28x28x256x3x2", "8x256x14x14x512x3x2", "8x64x56x56x128x1x2",
                              "8x128x28x28x256x1x2", "8x256x14x14x512x1x2"}) {
      cases.push_back(std::string(pass) + layer);
    }
  }
  return cases;
}

}  // namespace

Family conv_family() {
  return {"conv", std::string(conv_form), resnet18_layers(), {DType::f32}, {"onednn"}, parse_conv};
}

}  // namespace heddle::bench
