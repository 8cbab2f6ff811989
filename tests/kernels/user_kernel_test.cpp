// Kernels that a user writes at run time: values, fusion, derivatives, transforms, dtypes, mistakes; on every device,
// and as CUDA text.
#include "core/functions/user/user_kernel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/autograd.h"
#include "autograd/gradcheck.h"
#include "autograd/transforms.h"
#include "autograd/vmap.h"
#include "core/compile/compile.h"
#include "core/dialect/printer.h"
#include "core/functions/control/control.h"
#include "core/functions/functions.h"
#include "core/graph/checkpoint.h"
#include "core/graph/pending.h"
#include "core/lower/lower.h"
#include "core/record/capture.h"
#include "core/schedule/schedule.h"
#include "core/simplify/simplifier.h"
#include "tests/support/devices.h"
#ifdef HEDDLE_TEST_CUDA
#include "backend_cuda/nvrtc.h"
#endif

namespace heddle {
namespace {

// W of W e^W = x, x > -1/e, by Newton's iteration in double precision: the oracle.
double newton_w(double x) {
  double w = x > 1      ? std::log(x) - std::log(std::max(std::log(x), 0.5))
             : x < -0.3 ? -1 + std::sqrt(2 * (1 + std::exp(1.0) * x))
                        : std::log1p(x);
  for (int i = 0; i < 200; ++i) w -= (w * std::exp(w) - x) / (std::exp(w) * (w + 1));
  return w;
}

// Halley's iteration, which stops when the step is small.
UserElementwise lambert_definition() {
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
const UserKernel& lambert_w() {
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
std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}
INSTANTIATE_TEST_SUITE_P(Devices, UserKernels, ::testing::ValuesIn(test::value_devices()), test_name);

void expect_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                  const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << what << " at " << i;
}
std::vector<double> map(const std::vector<double>& x, const std::function<double(double)>& f) {
  std::vector<double> made;
  for (const double v : x) made.push_back(f(v));
  return made;
}
double slope(double x) {
  const double w = newton_w(x);
  return 1 / (std::exp(w) * (1 + w));
}
double curvature(double x) {  // -W^2 (W + 2) / (x^2 (1 + W)^3)
  const double w = newton_w(x);
  return -std::exp(-2 * w) * (w + 2) / std::pow(1 + w, 3);
}

const std::vector<double> points{-0.3, -0.1, 0, 1e-3, 0.5, 1, 2.718281828459045, 10, 100, 1e6, 7, 0.25};

TEST_P(UserKernels, LambertW) {
  const Tensor x = f32(points, {3, 4});
  expect_close(lambert_w()(x).to_doubles(), map(points, newton_w), 1e-6, "W");
  EXPECT_NEAR(lambert_w()(f32({1}, {})).item(), 0.5671432904097838, 1e-6);  // the omega constant
  // A strided, turned view with a step; an empty tensor; a NaN.
  const Tensor view = slice(transpose(x), 0, {3, -5, -2});
  expect_close(lambert_w()(view).to_doubles(),
               view.to_doubles().empty() ? std::vector<double>{} : map(view.to_doubles(), newton_w), 1e-6, "of a view");
  EXPECT_TRUE(lambert_w()(f32({}, {0, 3})).to_doubles().empty());
  EXPECT_TRUE(std::isnan(lambert_w()(f32({NAN}, {1})).item()));
  // Integers become f32.
  EXPECT_NEAR(lambert_w()(Tensor::from_vector(std::vector<int32_t>{1}, {1}, &device())).item(), 0.5671432904097838,
              1e-6);
}

TEST_P(UserKernels, LambertWInOtherTypes) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = f32({0.5, 1, 2, 10}, {4}).to(dtype), w = lambert_w()(x);
    EXPECT_EQ(w.dtype(), dtype);
    expect_close(w.to_doubles(), map(x.to_doubles(), newton_w), dtype == DType::f16 ? 6e-4 : 5e-3, "half precision");
    Tensor leaf = x.detach().set_requires_grad();
    expect_close(grad(sum(lambert_w()(leaf)), leaf).to_doubles(), map(x.to_doubles(), slope),
                 dtype == DType::f16 ? 2e-3 : 2e-2, "its gradient");
  }
  if (on_reference() || (device().caps().f64 && device().caps().f64_math)) {
    UserElementwise precise = lambert_definition();
    precise.name = "lambert_w_precise";
    const size_t at = precise.text.find("1e-7");
    precise.text.replace(at, 4, "1e-16");
    const Tensor x = Tensor::from_vector(std::vector<double>{0.5, 1, 10}, {3}, &device()),
                 w = elementwise_kernel(precise)(x);
    EXPECT_EQ(w.dtype(), DType::f64);
    expect_close(w.to_doubles(), map({0.5, 1, 10}, newton_w), 1e-14, "f64");
  }
}

TEST_P(UserKernels, Derivatives) {
  const std::vector<double> at{0.1, 0.5, 1, 3, 20};
  const Tensor x = f32(at, {5});
  const auto total = [](const Tensor& t) { return sum(lambert_w()(t)); };
  const std::vector<double> first = map(at, slope), second = map(at, curvature);
  expect_close(grad(total)(x).to_doubles(), first, 2e-6, "reverse");
  expect_close(jvp([](const Tensor& t) { return lambert_w()(t); }, x, ones_like(x)).second.to_doubles(), first, 2e-6,
               "forward");
  expect_close(grad([&](const Tensor& t) { return sum(grad(total)(t)); })(x).to_doubles(), second, 1e-5,
               "reverse over reverse");
  expect_close(hvp(total, x, ones_like(x)).to_doubles(), second, 1e-5, "forward over reverse");
  expect_close(vmap(grad(total))(reshape(x, {5, 1})).to_doubles(), first, 2e-6, "of each example");
  const double h = 1e-4;
  for (size_t i = 0; i < at.size(); ++i)
    EXPECT_NEAR((newton_w(at[i] + h) - newton_w(at[i] - h)) / (2 * h), first[i], 1e-6)
        << "the oracle against finite differences";
  Tensor leaf = x.detach().set_requires_grad();
  const Tensor kept = checkpoint([](const Tensor& t) { return lambert_w()(t) * 2.0; }, leaf);
  expect_close(grad(sum(kept), leaf).to_doubles(), map(first, [](double v) { return 2 * v; }), 2e-6, "checkpointed");
}

// Like a built-in: one kernel with its neighbours.
TEST_P(UserKernels, Fuses) {
  const Tensor x = f32({0.5, 1, 2, 3, 4, 5}, {2, 3}), row = f32({1, 2, 3}, {3});
  const Tensor y = lambert_w()(x + row) * 2.0 + abs(row), total = sum(square(lambert_w()(x)), {1});
  const Tensor y2 = y + 1.0;
  if (!on_reference()) {
    const bool loops_alone = device().caps().max_loop_iterations < UINT64_MAX;
    EXPECT_EQ(kernels({y2, y, total}), loops_alone ? 3u : 2u)
        << "one elementwise kernel, and the reduction with its prologue (apart where a driver counts loops)";
  }
  std::vector<double> expected, squares(2);
  const std::vector<double> a{0.5, 1, 2, 3, 4, 5};
  for (size_t i = 0; i < 6; ++i) {
    const double r = static_cast<double>(i % 3 + 1);
    expected.push_back(newton_w(a[i] + r) * 2 + r + 1);
    squares[i / 3] += newton_w(a[i]) * newton_w(a[i]);
  }
  expect_close(y2.to_doubles(), expected, 1e-6, "chain");
  expect_close(total.to_doubles(), squares, 1e-6, "reduction");
}

// Without loops: an expression in the epilogue of a product, with its names taken by the product's own text.
TEST_P(UserKernels, InTheEpilogueOfAProduct) {
  static const UserKernel bent = elementwise_kernel({.name = "bent",
                                                     .inputs = {"x", "m"},
                                                     .text = "x > 0 ? x + m : m * (exp(x) - 1.0)",
                                                     .host = [](std::span<const double> in, std::span<double> out) {
                                                       out[0] =
                                                           in[0] > 0 ? in[0] + in[1] : in[1] * (std::exp(in[0]) - 1);
                                                     }});
  const Tensor a = f32({1, -2, 3, 4, 5, -6}, {2, 3}), b = f32({1, 2, -3, 4, -5, 6, 1, 1, 2}, {3, 3}),
               bias = f32({0.5, -0.5, 1}, {3});
  const Tensor y = bent(matmul(a, b) + bias, 0.25);
  if (!on_reference()) {
    EXPECT_EQ(kernels({y}), 1u);
  }
  const Tensor z = matmul(a, b) + bias;
  expect_close(y.to_doubles(),
               map(z.to_doubles(), [](double v) { return v > 0 ? v + 0.25 : 0.25 * (std::exp(v) - 1); }), 1e-6,
               "epilogue");
}

// Two outputs of one text, inputs and outputs of other dtypes, integers, a loop whose length is an argument.
TEST_P(UserKernels, SeveralOutputsAndTypes) {
  static const UserKernel collatz =
      elementwise_kernel({.name = "collatz",
                          .inputs = {{"start", DType::i32}, {"limit", DType::i32}},
                          .outputs = {{"steps", DType::i32}, {"done", DType::boolean}, {"half_steps", DType::f32}},
                          .text = R"(int n = start;
                                                                   while (n != 1 && steps < limit) {
                                                                     n = IMOD(n, 2) == 0 ? IDIV(n, 2) : 3 * n + 1;
                                                                     ++steps;
                                                                   }
                                                                   done = n == 1;
                                                                   half_steps = CAST(float, steps) / 2.0f;)",
                          .iterations = 200,
                          .host = [](std::span<const double> in, std::span<double> out) {
                            int64_t n = static_cast<int64_t>(in[0]);
                            for (out[0] = 0; n != 1 && out[0] < in[1]; ++out[0]) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
                            out[1] = n == 1;
                            out[2] = out[0] / 2;
                          }});
  const Tensor start = Tensor::from_vector(std::vector<int32_t>{1, 2, 7, 27}, {4}, &device());
  const UserOperand operands[] = {start, 100.0};
  const std::vector<Tensor> results = collatz.call(operands);
  if (!on_reference()) {
    EXPECT_EQ(kernels({results[0], results[1], results[2]}), 1u);
  }
  EXPECT_EQ(results[0].to_doubles(), (std::vector<double>{0, 1, 16, 100}));
  EXPECT_EQ(results[1].to_doubles(), (std::vector<double>{1, 1, 1, 0}));
  EXPECT_EQ(results[2].to_doubles(), (std::vector<double>{0, 0.5, 8, 50}));
  EXPECT_EQ(results[1].dtype(), DType::boolean);

  static const UserKernel polar =
      elementwise_kernel({.name = "polar",
                          .inputs = {"a", "b"},
                          .outputs = {"r", "phi"},
                          .text = "r = sqrt(a * a + b * b); phi = atan2(b, a);",
                          .host =
                              [](std::span<const double> in, std::span<double> out) {
                                out[0] = std::hypot(in[0], in[1]);
                                out[1] = std::atan2(in[1], in[0]);
                              },
                          .jvp =
                              [](const UserCall& c) {
                                const Tensor &a = c.inputs[0], &b = c.inputs[1], &r = c.outputs[0];
                                return std::vector{(a * c.tangents[0] + b * c.tangents[1]) / r,
                                                   (a * c.tangents[1] - b * c.tangents[0]) / square(r)};
                              }});
  const auto loss = [](const Tensor& a, const Tensor& b) {
    const std::vector<Tensor> p = polar.call({a, b});
    return sum(p[0] * p[1]);
  };
  const auto written = [](const Tensor& a, const Tensor& b) { return sum(sqrt(a * a + b * b) * atan2(b, a)); };
  const Tensor a = f32({1, -2, 0.5}, {3}), b = f32({0.3, 1, 2}, {3});
  EXPECT_NEAR(loss(a, b).item(), written(a, b).item(), 1e-5);
  expect_close(grad<1>(loss)(a, b).to_doubles(), grad<1>(written)(a, b).to_doubles(), 1e-5, "transposed jvp");
  expect_close(hvp([&](const Tensor& t) { return loss(t, b); }, a, ones_like(a)).to_doubles(),
               hvp([&](const Tensor& t) { return written(t, b); }, a, ones_like(a)).to_doubles(), 2e-5, "second");
}

TEST_P(UserKernels, InCompiledFunctionsAndScans) {
  auto step = compile([](const Tensor& x) { return lambert_w()(x * 2.0) + 1.0; });
  for (int i = 1; i < 6; ++i) {
    const double v = 0.5 * i;
    EXPECT_NEAR(step(f32({v}, {1})).item(), newton_w(2 * v) + 1, 2e-6);
  }
  if (!on_reference()) {
    EXPECT_GT(step.stats().replayed, 0u);
  }
  Tensor x = f32({1.0, 2.0}, {2}).set_requires_grad();
  const Scanned all = scan(
      [](const std::vector<Tensor>& c, const std::vector<Tensor>& s) {
        return Scanned{{lambert_w()(c[0] + s[0])}, {}};
      },
      {x}, {f32({1, 2, 3}, {3})});
  const auto loop = [](double v) {
    for (const double s : {1.0, 2.0, 3.0}) v = newton_w(v + s);
    return v;
  };
  expect_close(all.carry[0].to_doubles(), map({1, 2}, loop), 1e-6, "scan");
  const auto difference = [&](double v) { return (loop(v + 1e-4) - loop(v - 1e-4)) / 2e-4; };
  expect_close(grad(sum(all.carry[0]), x).to_doubles(), map({1, 2}, difference), 1e-5, "its gradient");
}

// An equal definition made again shares plans; another text is another kernel.
TEST_P(UserKernels, PlansAreFoundByTheText) {
  if (on_reference()) GTEST_SKIP() << "it has no plans";
  const auto run = [&](const char* text) {
    const UserKernel scaled = elementwise_kernel({.name = "scaled", .inputs = {"x"}, .text = text});
    return scaled(f32({3}, {1})).item();
  };
  EXPECT_EQ(run("2.0 * x"), 6);
  const DeviceCounters before = device().counters();
  EXPECT_EQ(run("2.0 * x"), 6);
  EXPECT_EQ(device().counters().steps_compiled, before.steps_compiled);
  EXPECT_EQ(run("5.0 * x"), 15);
}

template <class E, class F>
void expect_error(const F& f, std::initializer_list<const char*> pieces) {
  try {
    f();
    ADD_FAILURE() << "no exception";
  } catch (const E& error) {
    for (const char* piece : pieces)
      EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << error.what() << " lacks: " << piece;
  }
}

TEST_P(UserKernels, Mistakes) {
  const Tensor x = f32({1, 2}, {2});
  if (!on_reference()) {
    const UserKernel wrong =
        elementwise_kernel({.name = "wrong_text", .inputs = {"x"}, .text = "T a = x * x;\n\nout = a + missing;"});
    const Tensor held = x * 3.0;
    try {
      wrong(x);
      ADD_FAILURE() << "no exception";
    } catch (const UserKernelError& error) {
      EXPECT_EQ(error.line(), 3) << error.what() << "\n" << error.log();
      for (const char* piece : {"[wrong_text] line 3", "missing", "user_kernel_test.cpp"})
        EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << error.what();
    }
    EXPECT_EQ(held.to_doubles(), (std::vector<double>{3, 6})) << "the library goes on";
    expect_error<CompileError>([&] { wrong(x); }, {"line 3"});
  } else {
    const UserKernel no_host = elementwise_kernel({.name = "no_host", .inputs = {"x"}, .text = "x"});
    expect_error<ValueError>([&] { no_host(x); }, {"[no_host]", "host"});
  }
  const UserKernel no_gradient =
      elementwise_kernel({.name = "no_gradient",
                          .inputs = {"x"},
                          .text = "x + 1.0",
                          .host = [](std::span<const double> in, std::span<double> out) { out[0] = in[0] + 1; }});
  Tensor leaf = x.detach().set_requires_grad();
  const Tensor y = sum(no_gradient(leaf));
  expect_error<GradError>([&] { backward(y); }, {"[no_gradient] no gradient was given"});
  EXPECT_EQ(y.item(), 5);
  const UserKernel bad_rule =
      elementwise_kernel({.name = "bad_rule",
                          .inputs = {"x"},
                          .text = "x + 1.0",
                          .host = [](std::span<const double> in, std::span<double> out) { out[0] = in[0] + 1; },
                          .vjp = [](const UserCall& c) { return std::vector{sum(c.cotangents[0])}; }});
  expect_error<GradError>([&] { backward(sum(bad_rule(leaf))); }, {"[bad_rule]", "()", "(2)"});
  expect_error<ValueError>([&] { lambert_w()(x, x); }, {"[lambert_w] 2 arguments", "takes 1"});
  expect_error<ValueError>([&] { lambert_w()(Tensor()); }, {"undefined"});
  expect_error<ShapeError>(
      [&] {
        elementwise_kernel({.name = "two",
                            .inputs = {"x", "y"},
                            .text = "x * y",
                            .host = [](std::span<const double>, std::span<double>) {}})(x, f32({1, 2, 3}, {3}));
      },
      {"[two]"});
  const UserKernel typed = elementwise_kernel({.name = "typed",
                                               .inputs = {{"n", DType::i32}},
                                               .outputs = {{"m", DType::i32}},
                                               .text = "n + 1",
                                               .host = [](std::span<const double>, std::span<double>) {}});
  expect_error<DTypeError>([&] { typed(x); }, {"[typed] input 'n' is declared i32", "f32"});
}

// What can be seen without a device.
TEST(UserKernelDefinitions, Mistakes) {
  const auto define = [](UserElementwise d) { elementwise_kernel(std::move(d)); };
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {"x"}, .text = "x +\n(x"}); },
                           {"[f] line 2", "not closed"});
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {"x"}, .text = "x)"}); }, {"line 1", "closes nothing"});
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {"x"}, .text = "\n#define A 1\nx"}); },
                           {"line 2", "preprocessor"});
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {"x"}, .text = "out = x;\nreturn;"}); },
                           {"line 2", "return"});
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {"x"}, .text = "sinh(x)"}); },
                           {"unknown function 'sinh'", "tanh"});
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {"x"}, .text = "T y = x;"}); },
                           {"never sets the output 'out'"});
  expect_error<ValueError>(
      [&] { define({.name = "f", .inputs = {"x"}, .text = "out = x; while (out < 1.0) { out = out + 1.0; }"}); },
      {"iterations"});
  expect_error<ValueError>([&] { define({.name = "f g", .inputs = {"x"}, .text = "x"}); }, {"'f g' cannot be a name"});
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {"x", "x"}, .text = "x"}); }, {"two of its inputs"});
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {"exp"}, .text = "exp"}); },
                           {"'exp' cannot be a name"});
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {}, .text = "1.0"}); }, {"no inputs"});
  expect_error<ValueError>([&] { define({.name = "f", .inputs = {"x"}, .text = "  // nothing\n"}); }, {"empty"});
  expect_error<ValueError>(
      [&] {
        define({.name = "f", .inputs = {"x"}, .outputs = {"a", "b"}, .text = "x"});
      },
      {"gives one output"});
  expect_error<ValueError>(
      [&] {
        define({.name = "f", .inputs = {{"x", DType::i32}}, .text = "x"});
      },
      {"each output must"});
}

// ---- whole bodies

// Sums of rows, and their largest elements, by a group per row and shared memory.
UserBody rows_definition() {
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
const UserKernel& row_facts() {
  static const UserKernel kernel = body_kernel(rows_definition());
  return kernel;
}

TEST_P(UserKernels, WholeBodies) {
  std::vector<double> values;
  for (int i = 0; i < 5 * 37; ++i) values.push_back(std::sin(0.7 * i));
  const Tensor x = f32(values, {5, 37});
  const auto check = [&](const Tensor& m) {
    const std::vector<Tensor> facts = row_facts().call({m});
    expect_close(facts[0].to_doubles(), sum(m, {1}).to_doubles(), 1e-5, "sums");
    EXPECT_EQ(facts[1].to_doubles(), max(m, {1}).to_doubles());
  };
  check(x);
  check(x * 2.0 + 1.0);        // computed before
  check(transpose(x));         // copied
  check(slice(x, 0, {2, 5}));  // begins inside of its buffer
  const std::vector<Tensor> half = row_facts().call({x.to(DType::f16)});
  expect_close(half[0].to_doubles(), sum(x, {1}).to_doubles(), 1e-2, "f16");
  const std::vector<Tensor> facts = row_facts().call({x});
  const Tensor after = facts[0] * facts[1];  // read from parts of one result
  expect_close(after.to_doubles(), (sum(x, {1}) * max(x, {1})).to_doubles(), 1e-5, "used");
  UserBody other = rows_definition();
  other.tunables = {{"LANES", 32}};
  expect_close(body_kernel(other).call({x})[0].to_doubles(), sum(x, {1}).to_doubles(), 1e-5, "another tunable");

  const auto loss = [](const Tensor& t) {
    const std::vector<Tensor> f = row_facts().call({t});
    return sum(square(f[0]) * f[1]);
  };
  const auto written = [](const Tensor& t) { return sum(square(sum(t, {1})) * max(t, {1})); };
  expect_close(grad(loss)(x).to_doubles(), grad(written)(x).to_doubles(), 2e-5, "gradient");
  expect_close(hvp(loss, x, ones_like(x)).to_doubles(), hvp(written, x, ones_like(x)).to_doubles(), 2e-4,
               "second order");
  const Tensor many = reshape(x, {5, 1, 37});
  expect_close(vmap([](const Tensor& t) { return row_facts().call({t})[0]; })(many).to_doubles(),
               sum(x, {1}).to_doubles(), 1e-5, "vmap");
  auto step = compile([](const Tensor& t) { return row_facts().call({t})[1] + 1.0; });
  for (int i = 0; i < 4; ++i)
    expect_close(step(x + static_cast<double>(i)).to_doubles(),
                 (max(x + static_cast<double>(i), {1}) + 1.0).to_doubles(), 1e-6, "compiled");
}

TEST_P(UserKernels, MistakesInBodies) {
  const Tensor x = f32({1, 2, 3, 4}, {2, 2});
  expect_error<ShapeError>([&] { row_facts().call({sum(x, {1})}); }, {"[row_facts] it takes a matrix"});
  expect_error<DTypeError>([&] { row_facts().call({x.to(DType::i32)}); }, {"[kernel row_facts]", "i32"});
  expect_error<ValueError>([&] { row_facts()(x); }, {"2 results"});
  UserBody broken = rows_definition();
  broken.name = "broken_rows";
  broken.constants = nullptr;
  expect_error<ValueError>([&] { body_kernel(broken).call({x}); }, {"[broken_rows]", "'R'"});
  broken = rows_definition();
  broken.name = "short_rows";
  broken.constants = [](std::span<const TensorType>) { return std::map<std::string, double>{{"R", 3.0}, {"C", 2.0}}; };
  expect_error<ShapeError>([&] { body_kernel(broken).call({x}); }, {"[short_rows]", "elements 0 to 6 of 'x'"});
  broken = rows_definition();
  broken.name = "no_rules";
  broken.vjp = nullptr;
  broken.vmap = nullptr;
  const UserKernel no_rules = body_kernel(broken);
  Tensor leaf = x.detach().set_requires_grad();
  expect_error<GradError>([&] { backward(sum(no_rules.call({leaf})[0])); }, {"[no_rules] no gradient was given"});
  expect_error<ValueError>(
      [&] {
        vmap([&](const Tensor& t) { return no_rules.call({t})[0]; })(reshape(x, {2, 1, 2}));
      },
      {"[vmap] the kernel 'no_rules'"});
  expect_error<ValueError>(
      [&] {
        body_kernel(
            {.name = "unparsed", .text = "/*\nin x f32\nunheard of\n*/\n", .outputs = rows_definition().outputs});
      },
      {"[unparsed]", ":3:"});
  if (on_reference()) return;
  broken = rows_definition();
  broken.name = "wrong_rows";
  broken.text.replace(broken.text.find("part[lane] = sum;"), 17, "part[lane] = summ;");
  try {
    body_kernel(broken).call({x});
    ADD_FAILURE() << "no exception";
  } catch (const UserKernelError& error) {
    EXPECT_EQ(error.line(), 24) << error.what() << "\n" << error.log();
  }
  expect_close(row_facts().call({x})[0].to_doubles(), {3, 7}, 1e-6, "the library goes on");
}

// ---- as text for CUDA, without a device
#ifdef HEDDLE_TEST_CUDA
TEST(UserKernelDefinitions, CompileForCuda) {
  std::string reason;
  if (!cuda::have_nvrtc(&reason)) GTEST_SKIP() << reason;
  DeviceContext& null = device("null:0");
  Caps caps = null.caps();
  caps.device_class = DeviceClass::discrete_gpu;
  caps.max_bindings = 16;
  caps.max_group_lanes = 1024;
  const Tensor x = zeros({8, 8}, DType::f32, &null);
  const std::vector<Tensor> held{lambert_w()(x + 1.0) * 2.0, sum(lambert_w()(x), {1}), lambert_w()(matmul(x, x)),
                                 row_facts().call({x})[0]};
  int found = 0;
  for (LoweredKernel& kernel : lower(schedule(simplify(import_graph(capture(held_pending()))), {16, true}), caps, {})) {
    SCOPED_TRACE(kernel.source.str());
    EXPECT_NO_THROW(
        EXPECT_FALSE(cuda::compile_ptx(print(kernel.source, Target::cuda), kernel.source.name, 90).empty()));
    ++found;
  }
  EXPECT_GE(found, 4);
}
#endif

}  // namespace
}  // namespace heddle
