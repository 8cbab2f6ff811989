// What the tests of users' kernels (user_kernel_test.cpp, user_body_test.cpp) share: the fixture over all devices, an
// elementwise kernel and a body.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/gradcheck.h"
#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/user/user_kernel.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/lower/lower.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/schedule/schedule.h"
#include "heddle/core/simplify/simplifier.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::user_kernels {

using tests::expect_error;

// W of W e^W = x, x > -1/e, by Newton's iteration in double precision: the oracle.
inline double newton_w(double x) {
  double w = x > 1      ? std::log(x) - std::log(std::max(std::log(x), 0.5))
             : x < -0.3 ? -1 + std::sqrt(2 * (1 + std::exp(1.0) * x))
                        : std::log1p(x);
  for (int i = 0; i < 200; ++i) w -= (w * std::exp(w) - x) / (std::exp(w) * (w + 1));
  return w;
}

// Halley's iteration, which stops when the step is small.
inline UserElementwise lambert_definition() {
  return {
      .name = "lambert_w",
      .inputs = {"x"},
      .outputs = {"w"},
      .text = R"(
// Corless et al. 1996, "On the Lambert W function", eq. 5.9
w = log1p(x);
if (x > 3.0) { w = log(x) - log(log(x)); }
for (int i = 0; i < 20; ++i) {
  T e = exp(w), f = w * e - x;
  T step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
  w = w - step;
  if (abs(step) <= 1e-7 * abs(w)) { break; }
})",
      .iterations = 20,
      .host = [](std::span<const double> in, std::span<double> out) { out[0] = newton_w(in[0]); },
      .vjp = [](const UserCall& c) { return std::vector{c.cotangents[0] / (exp(c.outputs[0]) * (1 + c.outputs[0]))}; }};
}
inline const UserKernel& lambert_w() {
  static const UserKernel kernel = elementwise_kernel(lambert_definition());
  return kernel;
}

class UserKernels : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& device() const { return heddle::device(GetParam()); }
  bool on_reference() const { return GetParam() == "reference:0"; }
  Tensor f32(const std::vector<double>& values, const Shape& shape) const {
    return Tensor::from_vector(std::vector<float>(values.begin(), values.end()), shape, &device());
  }
  // Launches that evaluating these takes.
  uint64_t kernels(std::initializer_list<Tensor> results) const {
    const uint64_t before = device().counters().kernels;
    eval(results);
    return device().counters().kernels - before;
  }
};

inline void expect_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                         const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << what << " at " << i;
}

// Sums of rows, and their largest elements, by a group per row and shared memory.
inline UserBody rows_definition() {
  return {
      .name = "row_facts",
      .text = R"(// Sum and maximum of each row.
/*
type  T f32 f16
in    x T
out   total f32
out   most f32
const uint R rows
const uint C columns
tune  LANES 16 [16 32] lanes of a group
shared float part LANES
shared float best LANES
group LANES
grid  linear R
bounds x 0, R * C
*/
KERNEL
uint row = min(GROUP_LINEAR, R - 1u), lane = LOCAL_ID(0);
float sum = 0.0f, top = -INFINITY;
for (uint c = lane; c < C; c += CAST(uint, LANES)) {
  float v = LOAD(x, row * C + c);
  sum += v;
  top = max(top, v);
}
part[lane] = sum;
best[lane] = top;
BARRIER();
if (lane == 0u) {
  for (uint l = 1u; l < CAST(uint, LANES); ++l) {
    sum += part[l];
    top = max(top, best[l]);
  }
  STORE(total, row, sum);
  STORE(most, row, top);
}
)",
      .outputs =
          [](std::span<const TensorType> in) {
            if (in[0].shape.rank() != 2) throw ShapeError("[row_facts] it takes a matrix, not " + in[0].shape.str());
            const TensorType row{Shape{in[0].shape[0]}, DType::f32};
            return std::vector{row, row};
          },
      .constants =
          [](std::span<const TensorType> in) {
            return std::map<std::string, double>{{"R", static_cast<double>(in[0].shape[0])},
                                                 {"C", static_cast<double>(in[0].shape[1])}};
          },
      .iterations = 4096,
      .host =
          [](std::span<const UserArray> in, std::span<UserArray> out) {
            const auto rows = static_cast<size_t>(in[0].shape[0]), columns = static_cast<size_t>(in[0].shape[1]);
            for (size_t r = 0; r < rows; ++r) {
              out[1].values[r] = -INFINITY;
              for (size_t c = 0; c < columns; ++c) {
                out[0].values[r] += in[0].values[r * columns + c];
                out[1].values[r] = std::max(out[1].values[r], in[0].values[r * columns + c]);
              }
            }
          },
      .vjp =
          [](const UserCall& c) {
            const Tensor hit = cast(c.inputs[0] == unsqueeze(c.outputs[1], 1), DType::f32);
            return std::vector{expand(unsqueeze(c.cotangents[0], 1), c.inputs[0].shape()) +
                               hit * unsqueeze(c.cotangents[1], 1)};
          },
      .vmap =
          [](std::span<const Tensor> in, const std::vector<bool>&, int64_t size) {
            const Shape& s = in[0].shape();
            const std::vector<Tensor> all = body_kernel(rows_definition()).call({reshape(in[0], {s[0] * s[1], s[2]})});
            return std::vector{reshape(all[0], {size, s[1]}), reshape(all[1], {size, s[1]})};
          }};
}
inline const UserKernel& row_facts() {
  static const UserKernel kernel = body_kernel(rows_definition());
  return kernel;
}

}  // namespace heddle::user_kernels
