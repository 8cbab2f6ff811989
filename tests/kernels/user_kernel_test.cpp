// Elementwise kernels that a user writes at run time: values, fusion, derivatives, transforms, dtypes, mistakes; on
// every device.
#include "heddle/core/functions/user/user_kernel.h"

#include <functional>

#include "heddle/core/device/context.h"
#include "tests/kernels/user_kernels.h"
#include "tests/support/device_test.h"

namespace heddle {
namespace {

using namespace user_kernels;

INSTANTIATE_TEST_SUITE_P(Devices, UserKernels, ::testing::ValuesIn(test::value_devices()), tests::backend_test_name);

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

}  // namespace
}  // namespace heddle
