// Whole bodies that a user writes at run time, on every device; users' kernels as CUDA text.
#include "tests/kernels/user_kernels.h"
#ifdef HEDDLE_TEST_CUDA
#include "heddle/backend_cuda/nvrtc.h"
#include "heddle/core/device/context.h"
#endif

namespace heddle {
namespace {

using namespace user_kernels;

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
  for (LoweredKernel& kernel : lower(schedule(simplify(import_graph(capture(held_pending()))), {16}), caps, {})) {
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
