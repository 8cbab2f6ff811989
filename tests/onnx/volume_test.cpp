// AffineGrid, GridSample and Col2Im of one and three dimensions. Values of PyTorch's and NumPy's own: the node cases of
// PyPI's onnx (bench/onnx_cases.py).
#include <gtest/gtest.h>

#include "heddle/core/functions/functions.h"
#include "heddle/onnx/import.h"
#include "heddle/onnx/parse.h"
#include "tests/onnx/wire.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<int64_t>;

onnx::Model made(const Wire& whole) { return onnx::Model(onnx::parse_model(model(whole, 20), "net.onnx", {"."}), {}); }

// x (2, 3, 4, 5, 3) at the points that theta maps its own grid to.
Tensor mapped(const Tensor& x, const Floats& theta, const std::string& mode, const std::string& padding, bool align) {
  const Wire size = tensor("size", i64, {5}, Longs(x.shape().begin(), x.shape().end())),
             map = tensor("theta", f32, {2, 3, 4}, [&] {
               Floats both = theta;
               both.insert(both.end(), theta.begin(), theta.end());
               return both;
             }());
  const Wire corners = attribute("align_corners", static_cast<int64_t>(align));
  const onnx::Model m = made(graph({node("AffineGrid", {"theta", "size"}, {"grid"}, {corners}),
                                    node("GridSample", {"x", "grid"}, {"y"},
                                         {corners, attribute("mode", mode), attribute("padding_mode", padding)})},
                                   {port("x", f32, {2, 3, 4, 5, 3})}, {port("y", f32, {2, 3, 4, 5, 3})}, {map, size}));
  return m.call({x})[0];
}

// The identity gives x, mirrored axes give x mirrored, whatever lies outside of it.
TEST(OnnxVolume, MapsOfTheGridMoveTheVolume) {
  const Tensor x = reshape(sin(arange(0, 360, 1, DType::f32)), {2, 3, 4, 5, 3});
  const Floats identity = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, mirror = {-1, 0, 0, 0, 0, 1, 0, 0, 0, 0, -1, 0};
  for (const char* mode : {"linear", "nearest"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const bool align : {false, true}) {
        const Floats same = mapped(x, identity, mode, padding, align).to_vector<float>(),
                     turned = mapped(x, mirror, mode, padding, align).to_vector<float>();
        const Floats wanted = x.to_vector<float>(), other = flip(x, {2, 4}).to_vector<float>();
        for (size_t i = 0; i < wanted.size(); ++i) {
          ASSERT_NEAR(same[i], wanted[i], 2e-5) << mode << padding << align << i;
          ASSERT_NEAR(turned[i], other[i], 2e-5) << mode << padding << align << i;
        }
      }
    }
  }
}

// All points one volume further along H: nothing, the last row, or the volume mirrored.
TEST(OnnxVolume, PointsOutsideAreOfThePadding) {
  const Tensor x = reshape(arange(0, 360, 1, DType::f32), {2, 3, 4, 5, 3});
  const Floats beyond = {1, 0, 0, 0, 0, 1, 0, 2, 0, 0, 1, 0};
  EXPECT_EQ(mapped(x, beyond, "nearest", "zeros", false).to_vector<float>(), Floats(360, 0));
  EXPECT_EQ(mapped(x, beyond, "nearest", "border", false).to_vector<float>(),
            expand(narrow(x, 3, 4, 1), x.shape()).to_vector<float>());
  EXPECT_EQ(mapped(x, beyond, "nearest", "reflection", false).to_vector<float>(), flip(x, {3}).to_vector<float>());
}

Wire longs(const std::string& name, const Longs& numbers) {
  Wire made = Wire().text(1, name).number(20, 7);
  for (const int64_t number : numbers) made.number(8, static_cast<uint64_t>(number));
  return made;
}

Tensor added(const Tensor& x, const Longs& size, const Longs& block, const std::vector<Wire>& attributes) {
  const auto rank = static_cast<int64_t>(size.size());
  const onnx::Model m = made(graph({node("Col2Im", {"x", "size", "block"}, {"y"}, attributes)},
                                   {port("x", f32, Longs(x.shape().begin(), x.shape().end()))},
                                   {port("y", f32, Longs(size.size() + 2, -1))},
                                   {tensor("size", i64, {rank}, size), tensor("block", i64, {rank}, block)}));
  return m.call({x})[0];
}

// Ones count how many blocks reach an element: along each axis by itself.
TEST(OnnxVolume, BlocksAreAdded) {
  EXPECT_EQ(added(ones({1, 2, 3}), {4}, {2}, {}).to_vector<float>(), (Floats{1, 2, 2, 1}));
  EXPECT_EQ(added(ones({1, 2, 4}), {3}, {2}, {longs("pads", {1, 1})}).to_vector<float>(), (Floats{2, 2, 2}));
  const Tensor line = arange(1, 7, 1, DType::f32);  // {1, 2, 3}, {4, 5, 6}: the second begins one later
  EXPECT_EQ(added(reshape(line, {1, 2, 3}), {4}, {2}, {}).to_vector<float>(), (Floats{1, 6, 8, 6}));
  const Tensor square = reshape(arange(1, 5, 1, DType::f32), {1, 2, 2});
  EXPECT_EQ(added(square, {5}, {2}, {longs("strides", {3})}).to_vector<float>(), (Floats{1, 3, 0, 2, 4}));
  EXPECT_EQ(added(square, {4}, {2}, {longs("dilations", {2})}).to_vector<float>(), (Floats{1, 2, 3, 4}));
  const Tensor y = added(ones({1, 2 * 8, 2 * 3 * 1}), {3, 4, 2}, {2, 2, 2}, {});
  EXPECT_EQ(y.shape(), (Shape{1, 2, 3, 4, 2}));
  const Floats found = y.to_vector<float>(), d = {1, 2, 1}, h = {1, 2, 2, 1};
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], d[i / 8 % 3] * h[i / 2 % 4]) << i;
  expect_error<ValueError>([] { added(ones({1, 2, 3}), {9}, {2}, {}); }, {"Col2Im"});
}

}  // namespace
}  // namespace heddle::tests
