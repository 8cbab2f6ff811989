// Rows: softmax, log-softmax, norms and cross entropy under every schedule of row reductions, at all kinds of lengths,
// with rows that hold NaN and infinities, on strided views and in half precision, against plain loops in double
// precision; their gradients against the reference device.
#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/norms.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();
using Row = std::vector<double>;

struct RowSchedule {
  const char* name;
  Bindings values;
};

class Rows : public DeviceTest {
 protected:
  // Each schedule is a kernel more to compile.
  std::vector<RowSchedule> schedules() {
    if (device().caps().machine() == Machine::cpu_loops) {
      return {{"default", {}},
              {"plain", {{"WIDTH", 16}, {"BLOCK", 1}, {"PREFETCH", 0}, {"STREAM", 0}}},
              {"scalar", {{"WIDTH", 1}, {"PREFETCH", 1}}},
              {"streamed", {{"WIDTH", 64}, {"BLOCK", 2}, {"PREFETCH", 1}, {"STREAM", 1}}},
              {"half", {{"WIDTH", 32}, {"BLOCK", 3}, {"PREFETCH", 1}}}};
    }
    // lavapipe has subgroups of 8 lanes.
    return {{"default", {}},
            {"one subgroup", {{"LANES", 8}}},
            {"many", {{"LANES", 128}}},
            {"shared memory", {{"LANES", 64}, {"SUBGROUPS", 0}}},
            {"whole rows in registers", {{"LANES", 64}, {"PER_LANE", 3}}},
            {"parts of rows in registers", {{"LANES", 8}, {"PER_LANE", 4}}}};
  }
};

std::vector<float> numbers(int64_t count, uint32_t seed, float scale = 4, float offset = 0) {
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) {
    seed = seed * 1664525u + 1013904223u;
    v = offset + scale * (static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
  }
  return x;
}

Row softmax_of(const Row& x) {
  double largest = x[0], total = 0;
  for (double v : x) largest = std::isnan(v) || v > largest ? v : largest;
  Row y;
  for (double v : x) total += std::exp(v - largest);
  for (double v : x) y.push_back(std::exp(v - largest) / total);
  return y;
}

Row log_softmax_of(const Row& x) {
  double largest = x[0], total = 0;
  for (double v : x) largest = std::isnan(v) || v > largest ? v : largest;
  Row y;
  for (double v : x) total += std::exp(v - largest);
  for (double v : x) y.push_back(v - largest - std::log(total));
  return y;
}

Row layer_norm_of(const Row& x) {
  double mean = 0, square = 0;
  for (double v : x) mean += v / static_cast<double>(x.size());
  for (double v : x) square += (v - mean) * (v - mean) / static_cast<double>(x.size());
  Row y;
  for (double v : x) y.push_back((v - mean) / std::sqrt(square + 1e-5));
  return y;
}

Row rms_norm_of(const Row& x) {
  double square = 0;
  for (double v : x) square += v * v / static_cast<double>(x.size());
  Row y;
  for (double v : x) y.push_back(v * (1 / std::sqrt(square + 1e-5)));
  return y;
}

struct Function {
  const char* name;
  Tensor (*run)(const Tensor&);
  Row (*want)(const Row&);
};
const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {"softmax", [](const Tensor& x) { return softmax(x, -1); }, softmax_of},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, -1); }, log_softmax_of},
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, {x.dim(-1)}); }, layer_norm_of},
      {"rms_norm", [](const Tensor& x) { return rms_norm(x, {}, 1e-5); }, rms_norm_of},
  };
  return all;
}

// Rows of `got` against want() of the rows of `x`; what is NaN or infinite must be so exactly.
void compare(const std::vector<float>& got, const std::vector<float>& x, int64_t length, Row (*want)(const Row&),
             double relative, double absolute) {
  ASSERT_EQ(got.size(), x.size());
  for (size_t first = 0; first < x.size(); first += static_cast<size_t>(length)) {
    const Row y = want(
        Row(x.begin() + static_cast<std::ptrdiff_t>(first), x.begin() + static_cast<std::ptrdiff_t>(first) + length));
    for (size_t i = 0; i < y.size(); ++i) {
      const double g = got[first + i], w = y[i];
      const bool same = std::isnan(w)   ? std::isnan(g)
                        : std::isinf(w) ? g == w
                                        : std::abs(g - w) <= absolute + relative * std::abs(w);
      ASSERT_TRUE(same) << g << ", not " << w << ", in row " << first / static_cast<size_t>(length) << ", column " << i
                        << " of " << length;
    }
  }
}

TEST_P(Rows, EveryLength) {
  // Softmax has few texts for all lengths; a norm's length stands in its text.
  const std::vector<std::pair<int64_t, size_t>> cases = {
      {1, 0}, {2, 0},  {15, 0},   {16, 0}, {17, 0}, {63, 0}, {64, 0},   {65, 0}, {1000, 0}, {1023, 0}, {1024, 0},
      {1, 1}, {17, 1}, {1000, 1}, {1, 2},  {16, 2}, {17, 2}, {1023, 2}, {2, 3},  {65, 3},   {1024, 3}};
  for (const auto& [length, which] : cases) {
    const int64_t rows = length < 100 ? 19 : 7;
    const Function& f = functions()[which];
    SCOPED_TRACE(f.name);
    const std::vector<float> v = numbers(rows * length, 7);
    compare(f.run(Tensor::from_vector(v, {rows, length}, &device())).to_vector<float>(), v, length, f.want, 2e-5, 2e-6);
  }
}

TEST_P(Rows, EverySchedule) {
  for (int64_t length : {65, 192}) {
    const std::vector<float> v = numbers(7 * length, 7);
    const Tensor x = Tensor::from_vector(v, {7, length}, &device());
    for (const RowSchedule& forced : schedules()) {
      SCOPED_TRACE(forced.name);
      const ScopedTuning scope({"rows", "", {}}, forced.values);
      compare(softmax(x, -1).to_vector<float>(), v, length, softmax_of, 2e-5, 2e-6);
      if (length == 65) compare(layer_norm(x, {length}).to_vector<float>(), v, length, layer_norm_of, 2e-5, 2e-6);
    }
  }
}

TEST_P(Rows, LongRows) {
  const int64_t length = 100003;
  const std::vector<float> v = numbers(3 * length, 11);
  const Tensor x = Tensor::from_vector(v, {3, length}, &device());
  for (const Function& f : functions()) {
    SCOPED_TRACE(f.name);
    compare(f.run(x).to_vector<float>(), v, length, f.want, 1e-4, 1e-6);
  }
}

TEST_P(Rows, NotANumberAndInfinity) {
  for (int64_t length : {17, 130}) {
    const int64_t rows = 9;
    std::vector<float> v = numbers(rows * length, 3);
    const auto at = [&](int64_t row, int64_t column) -> float& {
      return v[static_cast<size_t>(row * length + column)];
    };
    at(0, 0) = not_a_number;
    at(1, length - 1) = not_a_number;
    at(2, length / 2) = inf;
    at(3, length - 1) = -inf;
    for (int64_t i = 0; i < length; ++i) at(4, i) = -inf;
    for (int64_t i = 0; i < length; ++i) at(5, i) = -1e30f;
    at(6, 3) = 1e30f;
    at(7, 1) = -inf;
    at(7, 2) = not_a_number;
    const Tensor x = Tensor::from_vector(v, {rows, length}, &device());
    for (const Function& f : functions()) {
      SCOPED_TRACE(f.name);
      // Squares of 1e30 are not finite in f32.
      if (f.want == layer_norm_of || f.want == rms_norm_of) {
        std::vector<float> w = v;
        for (float& value : w) value = std::abs(value) == 1e30f ? 1.0f : value;
        compare(f.run(Tensor::from_vector(w, {rows, length}, &device())).to_vector<float>(), w, length, f.want, 2e-5,
                2e-6);
      } else {
        compare(f.run(x).to_vector<float>(), v, length, f.want, 2e-5, 2e-6);
      }
    }
    const std::vector<float> largest = max(x, {1}).to_vector<float>();
    EXPECT_TRUE(std::isnan(largest[0]) && std::isnan(largest[1]) && std::isnan(largest[7])) << length;
    EXPECT_EQ(largest[2], inf);
    EXPECT_EQ(largest[4], -inf);
  }
}

// The mean is large beside the deviation: what is lost is the rounding of the mean, not the variance.
TEST_P(Rows, NormOfLargeMeans) {
  const int64_t length = 1024;
  const std::vector<float> v = numbers(5 * length, 5, 1.75f, 1e4f);
  const Tensor x = Tensor::from_vector(v, {5, length}, &device());
  compare(layer_norm(x, {length}).to_vector<float>(), v, length, layer_norm_of, 1e-4, 3e-3);
}

TEST_P(Rows, ViewsAndHalfPrecision) {
  const int64_t rows = 10, length = 130;
  const std::vector<float> v = numbers(rows * 2 * (length + 7), 9);
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    Tensor whole = cast(Tensor::from_vector(v, {2 * rows, length + 7}, &device()), dtype);
    eval({whole});
    // Every second row from the second on, its columns but for seven; then the columns backwards.
    const Tensor part = slice(slice(whole, 0, {1, std::nullopt, 2}), 1, {3, 3 + length});
    const double rounding = dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 1e-3 : 8e-3;
    const ScopedTuning scope({"rows", "", {}}, {{"PREFETCH", 1}, {"BLOCK", 2}});
    SCOPED_TRACE(name_of(dtype));
    for (const Tensor& x : {part, flip(part, {1})}) {
      const std::vector<float> held = cast(x, DType::f32).to_vector<float>();
      compare(cast(softmax(x, -1), DType::f32).to_vector<float>(), held, length, softmax_of, rounding, 2e-6);
    }
    compare(cast(layer_norm(part, {length}), DType::f32).to_vector<float>(), cast(part, DType::f32).to_vector<float>(),
            length, layer_norm_of, rounding, rounding / 4);
  }
}

// Results of many megabytes go past the caches, of every width of element.
TEST_P(Rows, StreamedResults) {
  const ScopedTuning scope({"rows", "", {}}, {{"STREAM", 1}});
  const int64_t rows = 6, length = 192;
  const std::vector<float> v = numbers(rows * length, 13);
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(name_of(dtype));
    const Tensor x = cast(Tensor::from_vector(v, {rows, length}, &device()), dtype);
    const std::vector<float> held = cast(x, DType::f32).to_vector<float>();
    const double rounding = dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 1e-3 : 8e-3;
    compare(cast(softmax(x, -1), DType::f32).to_vector<float>(), held, length, softmax_of, rounding, 2e-6);
  }
  const Tensor x = Tensor::from_vector(v, {rows, length}, &device());
  const std::vector<int32_t> below = cast(x < max(x, {1}, true), DType::i32).to_vector<int32_t>();
  for (int64_t r = 0; r < rows; ++r) {
    const auto first = v.begin() + r * length;
    const float largest = *std::max_element(first, first + length);
    for (int64_t i = 0; i < length; ++i)
      ASSERT_EQ(below[static_cast<size_t>(r * length + i)], first[i] < largest ? 1 : 0);
  }
}

struct Gradients {
  std::vector<double> loss, x, weight;
};

Gradients gradients(const std::string& what, const std::vector<float>& v, int64_t rows, int64_t length,
                    DeviceContext& device) {
  Tensor x = Tensor::from_vector(v, {rows, length}, &device),
         weight = Tensor::from_vector(numbers(length, 21, 1, 1), {length}, &device);
  x.set_requires_grad();
  weight.set_requires_grad();
  std::vector<int64_t> picks;
  for (int64_t r = 0; r < rows; ++r) picks.push_back(r * 7 % length);
  Tensor loss;
  if (what == "cross entropy") {
    loss = cross_entropy(x * weight, Tensor::from_vector(picks, {rows}, &device));
  } else {
    const Tensor y = what == "softmax"       ? softmax(x * weight, -1)
                     : what == "log_softmax" ? log_softmax(x * weight, -1)
                     : what == "rms_norm"    ? rms_norm(x, weight)
                                             : layer_norm(x, {length}, weight);
    loss = sum(y * Tensor::from_vector(numbers(rows * length, 22), {rows, length}, &device));
  }
  const std::vector<Tensor> g = grad(loss, std::vector<Tensor>{x, weight});
  eval({loss, g[0], g[1]});
  return {loss.to_doubles(), g[0].to_doubles(), g[1].to_doubles()};
}

void close(const std::vector<double>& got, const std::vector<double>& want) {
  double largest = 0;
  for (double w : want) largest = std::max(largest, std::abs(w));
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5 * largest + 1e-4 * std::abs(want[i])) << i;
}

TEST_P(Rows, Gradients) {
  size_t turn = 0;
  for (const char* what : {"softmax", "log_softmax", "layer_norm", "rms_norm", "cross entropy"}) {
    const std::vector<RowSchedule> all = schedules();
    const RowSchedule forced = all[turn++ % all.size()];
    for (int64_t length : {33, 192}) {
      const ScopedTuning scope({"rows", "", {}}, length == 33 ? Bindings{} : forced.values);
      SCOPED_TRACE(std::string(what) + " " + std::to_string(length) + " " + forced.name);
      const std::vector<float> v = numbers(12 * length, 17, 2);
      const Gradients want = gradients(what, v, 12, length, heddle::device("reference:0")),
                      got = gradients(what, v, 12, length, device());
      close(got.loss, want.loss);
      close(got.x, want.x);
      close(got.weight, want.weight);
    }
  }
}

HEDDLE_DEVICE_TESTS(Rows);

}  // namespace
}  // namespace heddle::tests
