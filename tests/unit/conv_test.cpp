// Convolutions: what PyTorch answers (conv_values.json, made by conv_values.py), shapes, layouts, and errors.
#include "heddle/nn/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/expect_error.h"
#include "tests/support/reference_device.h"
#include "tests/unit/reference_tensors.h"

namespace heddle {
namespace {

using test::of;
using tests::expect_error;
using tests::reference;

Tensor quarters(const Shape& shape, int64_t seed) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(static_cast<int64_t>(i) * seed % 17 - 8) / 4;
  return Tensor::from_vector(values, shape, &reference());
}

using Function = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&, Caller);
const std::map<std::string, Function> functions = {{"conv1d", &conv1d},
                                                   {"conv2d", &conv2d},
                                                   {"conv3d", &conv3d},
                                                   {"conv_transpose1d", &conv_transpose1d},
                                                   {"conv_transpose2d", &conv_transpose2d},
                                                   {"conv_transpose3d", &conv_transpose3d}};

TEST(Conv, ValuesAndGradientsOfPyTorch) {
  std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/tests/unit/conv_values.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 7u);
  for (const auto& c : cases) {
    const auto list = [&](const char* name) {
      return c["options"].contains(name) ? c["options"][name].get<std::vector<int64_t>>() : std::vector<int64_t>{};
    };
    const ConvOptions options{list("stride"),
                              list("padding"),
                              list("dilation"),
                              c["options"]["groups"].get<int64_t>(),
                              ConvLayout::channels_first,
                              list("output_padding")};
    Tensor x = quarters(Shape(c["x"].get<std::vector<int64_t>>()), 5),
           w = quarters(Shape(c["w"].get<std::vector<int64_t>>()), 7);
    Tensor b = quarters(Shape(c["db"]["shape"].get<std::vector<int64_t>>()), 3);
    for (Tensor* t : {&x, &w, &b}) t->set_requires_grad();
    const Tensor y = functions.at(c["op"].get<std::string>())(x, w, b, options, Caller::current());
    ASSERT_EQ(y.shape(), Shape(c["y"]["shape"].get<std::vector<int64_t>>())) << c["op"];
    const std::vector<Tensor> gradients = grad(sum(y * quarters(y.shape(), 11)), {x, w, b});
    EXPECT_EQ(y.to_doubles(), c["y"]["data"].get<std::vector<double>>()) << c["op"];
    EXPECT_EQ(gradients[0].to_doubles(), c["dx"]["data"].get<std::vector<double>>()) << c["op"];
    EXPECT_EQ(gradients[1].to_doubles(), c["dw"]["data"].get<std::vector<double>>()) << c["op"];
    EXPECT_EQ(gradients[2].to_doubles(), c["db"]["data"].get<std::vector<double>>()) << c["op"];
  }
}

TEST(Conv, ChannelsLastIsTheSameConvolution) {
  const Tensor x = quarters({2, 4, 5, 6}, 5), w = quarters({6, 2, 3, 3}, 7), b = quarters({6}, 3);
  ConvOptions o{{2, 1}, {1, 0, 0, 2}, {}, 2, ConvLayout::channels_first, {}};
  const Tensor first = conv2d(x, w, b, o);
  EXPECT_EQ(first.shape(), (Shape{2, 6, 2, 6}));
  o.layout = ConvLayout::channels_last;
  const Tensor last = conv2d(permute(x, {0, 2, 3, 1}), w, b, o);
  EXPECT_EQ(permute(last, {0, 3, 1, 2}).to_doubles(), first.to_doubles());
  EXPECT_EQ(conv2d(slice(permute(x, {0, 2, 3, 1}), 0, {0, 1}), w, b, o).to_doubles(),
            slice(last, 0, {0, 1}).to_doubles());
}

TEST(Conv, ShapesAndTypes) {
  EXPECT_EQ(conv2d(of({3, 8, 8}), of({4, 3, 3, 3})).shape(), (Shape{4, 6, 6}));  // no images
  EXPECT_EQ(conv2d(of({0, 3, 8, 8}), of({4, 3, 3, 3})).shape(), (Shape{0, 4, 6, 6}));
  EXPECT_EQ(conv1d(of({1, 2, 5}), of({3, 2, 5}), {{7}, {}, {}, 1, {}, {}}).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(conv_transpose2d(of({1, 2, 1, 1}), of({2, 3, 1, 1})).shape(), (Shape{1, 3, 1, 1}));
  EXPECT_EQ(conv2d(of({1, 1, 2, 2}, DType::f16), of({1, 1, 1, 1}, DType::bf16)).dtype(), DType::f32);
  EXPECT_EQ(conv2d(of({1, 1, 2, 2}, DType::f16), of({1, 1, 1, 1}, DType::f16)).dtype(), DType::f16);
}

TEST(Conv, Errors) {
  const Tensor x = of({2, 6, 8, 8}), w = of({4, 6, 3, 3});
  expect_error<ShapeError>([&] { conv2d(x, of({4, 5, 3, 3})); }, {"[conv2d]", "6 channels", "takes 5"});
  expect_error<ShapeError>([&] { conv2d(permute(x, {0, 2, 3, 1}), w); }, {"is the layout right?"});
  expect_error<ShapeError>(
      [&] {
        conv2d(x, of({4, 2, 3, 3}), {{}, {}, {}, 3, {}, {}});
      },
      {"3 groups", "4 output channels"});
  expect_error<ShapeError>(
      [&] {
        conv2d(x, of({4, 6, 9, 3}));
      },
      {"spatial dimension 0", "covers 9", "only 8", "size would be 0"});
  expect_error<ShapeError>([&] { conv2d(x, w, {{}, {}, {4}, 1, {}, {}}); }, {"covers 9", "dilation 4"});
  expect_error<ShapeError>(
      [&] {
        conv_transpose2d(x, of({6, 4, 1, 1}), {{}, {5}, {}, 1, {}, {}});
      },
      {"size would be -2", "less padding"});
  expect_error<ShapeError>([&] { conv2d(x, w, of({5})); }, {"bias (5)", "(4)"});
  expect_error<ShapeError>([&] { conv2d(of({8, 8}), w); }, {"4 dimensions"});
  expect_error<ShapeError>([&] { conv2d(x, of({4, 6, 3})); }, {"weight (4, 6, 3)"});
  expect_error<ShapeError>([&] { conv2d(x, of({4, 6, 0, 3})); }, {"empty kernel"});
  expect_error<ValueError>([&] { conv2d(x, w, {{0}, {}, {}, 1, {}, {}}); }, {"stride 0"});
  expect_error<ValueError>([&] { conv2d(x, w, {{1, 2, 3}, {}, {}, 1, {}, {}}); }, {"stride has 3 entries", "or 2"});
  expect_error<ValueError>([&] { conv2d(x, w, {{}, {-1}, {}, 1, {}, {}}); }, {"padding -1"});
  expect_error<ValueError>([&] { conv2d(x, w, {{}, {}, {}, 0, {}, {}}); }, {"groups is 0"});
  expect_error<ValueError>([&] { conv2d(x, w, {{}, {}, {}, 1, {}, {1}}); }, {"output_padding"});
  expect_error<ValueError>(
      [&] {
        conv_transpose2d(x, of({6, 4, 3, 3}), {{2}, {}, {}, 1, {}, {2}});
      },
      {"output_padding 2", "stride 2"});
  expect_error<DTypeError>([&] { conv2d(of({1, 1, 3, 3}, DType::i32), of({1, 1, 1, 1})); }, {"floating", "i32"});
}

TEST(Conv, Layers) {
  Generator generator{5, 0};
  nn::Conv2d layer(4, 6, {3},
                   {.stride = {2}, .padding = {1}, .groups = 2, .device = reference(), .generator = &generator});
  EXPECT_EQ(layer.weight.shape(), (Shape{6, 2, 3, 3}));
  EXPECT_EQ(layer.forward(of({2, 4, 8, 8})).shape(), (Shape{2, 6, 4, 4}));
  EXPECT_EQ(layer.parameters().size(), 2u);
  const double bound = 1 / std::sqrt(2.0 * 9);  // both weight and bias: kaiming_uniform with slope sqrt(5)
  for (const Tensor& p : layer.parameters()) {
    for (double v : p.to_doubles()) EXPECT_LE(std::abs(v), bound);
  }
  nn::ConvTranspose1d back(
      4, 6, {4}, {.stride = {2}, .padding = {1}, .bias = false, .device = reference(), .generator = &generator});
  EXPECT_EQ(back.weight.shape(), (Shape{4, 6, 4}));
  EXPECT_EQ(back.forward(of({2, 4, 5})).shape(), (Shape{2, 6, 10}));
  EXPECT_EQ(back.parameters().size(), 1u);
  expect_error<ValueError>([&] { nn::Conv2d(4, 6, {3}, {.groups = 4, .device = reference()}); },
                           {"[Conv2d]", "4 groups"});
  expect_error<ValueError>([&] { nn::Conv3d(4, 6, {3, 3}, {.device = reference()}); }, {"[Conv3d]", "2 sizes"});
}

}  // namespace
}  // namespace heddle
