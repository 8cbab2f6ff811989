// DeformConv: beside a convolution, and beside the double-precision sum that the papers define.
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/core/functions/functions.h"
#include "heddle/onnx/import.h"
#include "heddle/onnx/parse.h"
#include "tests/onnx/wire.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

using Longs = std::vector<int64_t>;

// (2, 4, 7, 6) by (6, 2, 3, 2): two groups, two of the offsets; stride (2, 1), dilation (1, 2), pads 1 0 2 1.
constexpr int64_t n = 2, channels = 4, height = 7, width = 6, out = 6, kernel_h = 3, kernel_w = 2, groups = 2,
                  offset_groups = 2, out_h = 4, out_w = 5;

Wire port_of(const std::string& name, const Tensor& t) {
  return port(name, f32, Longs(t.shape().begin(), t.shape().end()));
}

Tensor called(const std::vector<Tensor>& inputs, int64_t of_offsets = offset_groups) {
  const Names all = {"x", "w", "offset", "b", "mask"},
              names(all.begin(), all.begin() + static_cast<long>(inputs.size()));
  std::vector<Wire> ports;
  for (size_t i = 0; i < inputs.size(); ++i) ports.push_back(port_of(names[i], inputs[i]));
  const Wire op = node("DeformConv", names, {"y"},
                       {attribute("strides", Longs{2, 1}), attribute("dilations", Longs{1, 2}),
                        attribute("pads", Longs{1, 0, 2, 1}), attribute("group", groups),
                        attribute("offset_group", of_offsets), attribute("kernel_shape", Longs{kernel_h, kernel_w})});
  const std::string whole = model(graph({op}, ports, {port("y", f32, {n, out, out_h, out_w})}, {}), 22);
  return onnx::Model(onnx::parse_model(whole, "net.onnx", {"."}), {}).call(inputs)[0];
}

Tensor waves(const Shape& shape, double step, double scale = 1) {
  return reshape(sin(arange(0, static_cast<double>(shape.numel()), 1, DType::f32) * step) * scale, shape);
}

double at(const std::vector<float>& v, const Shape& shape, std::initializer_list<int64_t> index) {
  int64_t flat = 0;
  int axis = 0;
  for (const int64_t i : index) flat = flat * shape[axis++] + i;
  return v[static_cast<size_t>(flat)];
}

TEST(OnnxDeform, WithoutOffsetsItIsAConvolution) {
  const Tensor x = waves({n, channels, height, width}, 0.7), w = waves({out, 2, kernel_h, kernel_w}, 1.3),
               offset = zeros({n, 2 * offset_groups * kernel_h * kernel_w, out_h, out_w}), b = waves({out}, 2);
  ConvOptions options;
  options.stride = {2, 1};
  options.padding = {1, 2, 0, 1};
  options.dilation = {1, 2};
  options.groups = groups;
  const std::vector<float> wanted = conv2d(x, w, b, options).to_vector<float>(),
                           found = called({x, w, offset, b}).to_vector<float>();
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-5) << i;
}

// Every output by itself; offsets of up to three pixels lead out of the image on all sides.
TEST(OnnxDeform, ItReadsWhereTheOffsetsSay) {
  constexpr int64_t elements = kernel_h * kernel_w;
  const Shape xs{n, channels, height, width}, ws{out, 2, kernel_h, kernel_w},
      os{n, 2 * offset_groups * elements, out_h, out_w}, ms{n, offset_groups * elements, out_h, out_w};
  const Tensor x = waves(xs, 0.7), w = waves(ws, 1.3), offset = waves(os, 0.37, 3), b = waves({out}, 2),
               mask = waves(ms, 0.9);
  const std::vector<float> image = x.to_vector<float>(), weight = w.to_vector<float>(),
                           moved = offset.to_vector<float>(), bias = b.to_vector<float>(),
                           counts = mask.to_vector<float>(), found = called({x, w, offset, b, mask}).to_vector<float>();
  const auto sample = [&](int64_t example, int64_t channel, double y, double z) {
    double sum = 0;
    for (const double row : {std::floor(y), std::floor(y) + 1}) {
      for (const double column : {std::floor(z), std::floor(z) + 1}) {
        if (row < 0 || row >= height || column < 0 || column >= width) continue;
        sum += (1 - std::abs(y - row)) * (1 - std::abs(z - column)) *
               at(image, xs, {example, channel, static_cast<int64_t>(row), static_cast<int64_t>(column)});
      }
    }
    return sum;
  };
  const auto term = [&](int64_t e, int64_t o, int64_t c, int64_t k, int64_t i, int64_t j) {
    const int64_t from = o / (out / groups) * (channels / groups) + c, kh = k / kernel_w, kw = k % kernel_w,
                  point = from / (channels / offset_groups) * elements + k;
    const double y = static_cast<double>(i * 2 + kh - 1) + at(moved, os, {e, 2 * point, i, j}),
                 z = static_cast<double>(j + kw * 2) + at(moved, os, {e, 2 * point + 1, i, j});
    return at(weight, ws, {o, c, kh, kw}) * at(counts, ms, {e, point, i, j}) * sample(e, from, y, z);
  };
  size_t index = 0;
  for (int64_t e = 0; e < n; ++e) {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t place = 0; place < out_h * out_w; ++place, ++index) {
        double wanted = bias[static_cast<size_t>(o)];
        for (int64_t c = 0; c < channels / groups; ++c) {
          for (int64_t k = 0; k < elements; ++k) wanted += term(e, o, c, k, place / out_w, place % out_w);
        }
        ASSERT_NEAR(found.at(index), wanted, 2e-5) << e << ' ' << o << ' ' << place;
      }
    }
  }
}

TEST(OnnxDeform, ShapesThatDoNotFitAreRefused) {
  const Tensor x = waves({n, channels, height, width}, 0.7), w = waves({out, 2, kernel_h, kernel_w}, 1.3);
  expect_error<ValueError>([&] { called({x, w, zeros({n, 24, out_h, out_w + 1})}); }, {"[onnx]", "the offsets are"});
  expect_error<ValueError>([&] { called({x, w, zeros({n, 24, out_h, out_w})}, 3); }, {"[onnx]", "groups 2"});
  expect_error<ValueError>(
      [&] {
        called({x, w, zeros({n, 24, out_h, out_w}), zeros({out}), zeros({n, 11, out_h, out_w})});
      },
      {"[onnx]", "the mask"});
}

}  // namespace
}  // namespace heddle::tests
