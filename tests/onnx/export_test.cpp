// ONNX export: what an exported function gives when it is imported again has the bits of the function itself.
#include "heddle/onnx/export.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/io/read_file.h"
#include "heddle/nn/models/cnn.h"
#include "heddle/nn/models/gpt.h"
#include "heddle/nn/models/lenet.h"
#include "heddle/nn/models/mobilenet.h"
#include "heddle/nn/models/recurrent_lm.h"
#include "heddle/nn/models/resnet.h"
#include "heddle/nn/models/unet.h"
#include "heddle/nn/models/vae.h"
#include "heddle/nn/models/vit.h"
#include "heddle/nn/recurrent.h"
#include "heddle/onnx/export/expression.h"
#include "heddle/onnx/export/rows.h"
#include "heddle/onnx/import.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using onnx::Dimension;
using onnx::ExportFunction;
using onnx::ExportInput;
using onnx::ExportOptions;

const Dimension varying{{}, "N"};

std::vector<Dimension> sizes(std::initializer_list<int64_t> given) {
  std::vector<Dimension> result;
  for (const int64_t size : given) result.push_back(size < 0 ? varying : Dimension{size, ""});
  return result;
}

class OnnxExport : public testing::Test {
 protected:
  static DeviceContext& host() { return device("reference:0"); }
  static Tensor random(const Shape& shape, DType dtype = DType::f32, uint64_t seed = 7) {
    Generator generator{seed, 0};
    const Tensor drawn = uniform(shape, 0, 1, &host(), &generator);
    return is_float(dtype) ? cast(drawn * 2 - 1, dtype) : cast(drawn * 7, dtype);
  }
  onnx::Model exported(const ExportFunction& f, const std::vector<ExportInput>& inputs, ExportOptions options) {
    options.device = &host();
    report = onnx::save(folder / "net.onnx", f, inputs, options);
    onnx::LoadOptions load;
    load.device = &host();
    return onnx::load(folder / "net.onnx", load);
  }
  // The bits of f where nothing is expanded; values that are as near as ONNX's ops can say where all is.
  void expect_same(const ExportFunction& f, const std::vector<ExportInput>& inputs,
                   const std::vector<std::vector<Tensor>>& calls, ExportOptions options = {}) {
    for (const int opset : {17, 18, 20, 21}) {
      options.opset = opset;
      options.functions = true;
      const onnx::Model model = exported(f, inputs, options);
      options.functions = false;
      const onnx::Model plain = exported(f, inputs, options);
      EXPECT_EQ(report.functions, 0u);
      for (const std::vector<Tensor>& arguments : calls) {
        const NoGradScope no_grad;
        const std::vector<Tensor> wanted = f(arguments), found = model.call(arguments), near = plain.call(arguments);
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t i = 0; i < wanted.size(); ++i) {
          ASSERT_EQ(found[i].shape(), wanted[i].shape()) << "opset " << opset;
          ASSERT_EQ(found[i].dtype(), wanted[i].dtype()) << "opset " << opset;
          EXPECT_EQ(found[i].to_bytes(), wanted[i].to_bytes()) << "opset " << opset;
          expect_near(near[i], wanted[i], opset);
        }
      }
    }
  }
  static void expect_near(const Tensor& found, const Tensor& wanted, int opset) {
    ASSERT_EQ(found.shape(), wanted.shape()) << "plain, opset " << opset;
    ASSERT_EQ(found.dtype(), wanted.dtype()) << "plain, opset " << opset;
    const std::vector<double> a = found.to_doubles(), b = wanted.to_doubles();
    const double bound = is_half(wanted.dtype()) ? 1e-2 : 1e-6;  // each op of a half rounds
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])) continue;
      ASSERT_NEAR(a[i], b[i], bound * std::max(1.0, std::abs(b[i]))) << "plain, opset " << opset << ", element " << i;
    }
  }
  void expect_same(const std::function<Tensor(const Tensor&)>& f, const Shape& shape, DType dtype = DType::f32) {
    std::vector<Dimension> fixed;
    for (const int64_t size : shape) fixed.push_back({size, ""});
    expect_same([&](const std::vector<Tensor>& x) { return std::vector{f(x[0])}; }, {{"x", dtype, fixed}},
                {{random(shape, dtype)}});
  }
  // With two batches.
  void expect_model(nn::Module& model, std::initializer_list<int64_t> shape, DType dtype = DType::f32) {
    model.eval();
    std::vector<std::vector<Tensor>> calls;
    for (const int64_t batch : {1, 3}) {
      Shape sized;
      for (const int64_t size : shape) sized.push_back(size < 0 ? batch : size);
      calls.push_back({random(sized, dtype)});
    }
    ExportOptions options;
    options.names = model.state_dict();
    expect_same([&](const std::vector<Tensor>& x) { return std::vector{model(x[0])}; }, {{"x", dtype, sizes(shape)}},
                calls, options);
    for (const auto& [name, value] : options.names) parameters += static_cast<uint64_t>(value.numel());
  }
  nn::ParameterOptions on() const { return {.device = host()}; }

  test::TemporaryFolder folder;
  onnx::ExportReport report;
  uint64_t parameters = 0;
};

// ---- models

TEST_F(OnnxExport, Mlp) {
  nn::Mlp model({.in = 12, .hidden = {8, 6}, .out = 4}, on());
  expect_model(model, {-1, 12});
  EXPECT_EQ(report.parameters, parameters);
}
TEST_F(OnnxExport, MlpOfEachActivation) {
  for (const nn::Activation a : {nn::Activation::gelu, nn::Activation::silu, nn::Activation::tanh}) {
    nn::Mlp model({.in = 12, .hidden = {8}, .out = 4, .activation = a, .dropout = 0.5}, on());
    expect_model(model, {-1, 3, 2, 2});
  }
}
TEST_F(OnnxExport, Cnn) {
  nn::Cnn model({}, on());
  expect_model(model, {-1, 1, 28, 28});
}
TEST_F(OnnxExport, LeNet) {
  nn::LeNet model({}, on());
  expect_model(model, {-1, 1, 28, 28});
}
TEST_F(OnnxExport, ResNet) {
  nn::ResNetOptions options{.blocks = {1, 1}, .width = 8, .classes = 5};
  nn::ResNet model(options, on());
  expect_model(model, {-1, 3, 20, 20});
  options.bottleneck = options.small_input = true;
  nn::ResNet other(options, on());
  expect_model(other, {-1, 3, 8, 8});
}
TEST_F(OnnxExport, MobileNet) {
  nn::MobileNetV2 model({.classes = 5}, on());
  expect_model(model, {-1, 3, 32, 32});
}
TEST_F(OnnxExport, Vit) {
  nn::Vit model({.size = 8, .patch = 4, .layers = 2, .heads = 2, .width = 16, .mlp_width = 32, .classes = 5}, on());
  expect_model(model, {-1, 3, 8, 8});
}
TEST_F(OnnxExport, UNet) {
  nn::UNet model({.width = 8, .multipliers = {1, 2}, .groups = 4}, on());
  expect_model(model, {-1, 1, 8, 8});
}
TEST_F(OnnxExport, UNetWithTime) {
  nn::UNet model({.width = 8, .multipliers = {1, 2}, .groups = 4, .time = true}, on());
  model.eval();
  const ExportFunction f = [&](const std::vector<Tensor>& x) { return std::vector{model.run(x[0], x[1])}; };
  expect_same(f, {{"x", DType::f32, sizes({-1, 1, 6, 6})}, {"time", DType::i32, sizes({-1})}},
              {{random({3, 1, 6, 6}), random({3}, DType::i32)}}, {.names = model.state_dict()});
}
TEST_F(OnnxExport, Autoencoders) {
  nn::Autoencoder model({.in = 12, .hidden = {8}, .latent = 3}, on());
  expect_model(model, {-1, 12});
  nn::Vae vae({.in = 12, .hidden = {8}, .latent = 3}, on());
  expect_model(vae, {-1, 12});
}
TEST_F(OnnxExport, RecurrentLanguageModels) {
  for (const auto cell : {nn::RecurrentCellKind::lstm, nn::RecurrentCellKind::gru}) {
    nn::RecurrentLm model({.vocabulary = 9, .width = 5, .hidden = 6, .layers = 2, .cell = cell}, on());
    expect_model(model, {-1, 7}, DType::i32);
  }
}
TEST_F(OnnxExport, Gpt) {
  nn::Gpt model({.vocabulary = 9, .context = 40, .layers = 2, .heads = 2, .width = 8}, on());
  expect_model(model, {-1, 7}, DType::i32);
}
TEST_F(OnnxExport, BothDirectionsAndLengths) {
  nn::LSTM model(3, 4, {.layers = 2, .bidirectional = true, .device = host()});
  model.eval();
  const ExportFunction f = [&](const std::vector<Tensor>& x) {
    const auto all = model.run(x[0], {}, x[1]);
    return std::vector{all.states, all.last[0], all.last[1]};
  };
  expect_same(f, {{"x", DType::f32, sizes({5, -1, 3})}, {"lengths", DType::i32, sizes({-1})}},
              {{random({5, 2, 3}), Tensor::from_vector(std::vector<int32_t>{5, 2}, {2}, &host())}},
              {.outputs = {"states", "h", "c"}, .names = model.state_dict()});
}

// ---- rows

// Rows that no op of ONNX, and no few of them, compute.
const std::set<std::string_view>& without_op() {
  static const std::set<std::string_view> names = {"erfinv", "lgamma", "shift_left", "shift_right"};
  return names;
}

TEST_F(OnnxExport, EveryElementwiseRowIsWritten) {
  for (const OpDef* op : all_ops()) {
    if (op->kind != OpKind::elementwise) continue;
    const bool whole = op->rule == DTypeRule::whole, logical = op->rule == DTypeRule::logical;
    const DType t = whole ? DType::i32 : logical ? DType::boolean : DType::f32;
    EXPECT_EQ(onnx::find_export_row(op->name, false, 21, t) == nullptr, without_op().count(op->name) != 0)
        << op->name << ": a line in onnx/export/rows.inc, or its name here";
  }
  for (const onnx::ExportRow& row : onnx::export_rows()) {
    if (row.expression) EXPECT_FALSE(onnx::parse_expression(row.expression).empty()) << row.name;
  }
}

TEST_F(OnnxExport, ElementwiseRows) {
  const auto skipped = [&](std::string_view name) {
    return without_op().count(name) != 0 || name.starts_with("bitwise");
  };
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc)      \
  if (!skipped(#name)) {                                                  \
    SCOPED_TRACE(#name);                                                  \
    expect_same([](const Tensor& x) { return heddle::name(x); }, {2, 5}); \
  }
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc)                         \
  if (!skipped(#name)) {                                                                      \
    SCOPED_TRACE(#name);                                                                      \
    const DType t = std::string_view(#rule) == "whole" ? DType::i32 : DType::f32;             \
    expect_same(                                                                              \
        [&](const Tensor& x) {                                                                \
          return heddle::name(x, slice(flip(x, {0}), 0, {0, 1}) + (t == DType::i32 ? 1 : 0)); \
        },                                                                                    \
        {2, 5}, t);                                                                           \
  }
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY
}

TEST_F(OnnxExport, RowsOfWholeNumbersAndBool) {
  const Shape shape{2, 3};
  expect_same([](const Tensor& x) { return mod(x - 3, 4) + integer_quotient(x - 3, 2); }, shape, DType::i32);
  expect_same([](const Tensor& x) { return relu(-abs(x)) * sign(x); }, shape, DType::i64);
  expect_same([](const Tensor& x) { return cast(x > 2, DType::i64) + cast(x != 3, DType::i64); }, shape, DType::i32);
  expect_same([](const Tensor& x) { return cast((x > 2) > (x < 5), DType::f32); }, shape, DType::i32);
  expect_same([](const Tensor& x) { return where(x > 3, x, -1); }, shape, DType::i32);
}

TEST_F(OnnxExport, Movement) {
  const Shape shape{3, 4, 5};
  expect_same([](const Tensor& x) { return reshape(permute(x, {2, 0, 1}), {5, 12}); }, shape);
  expect_same([](const Tensor& x) { return x[Slice{}][Slice{1, 4, 2}] + slice(x, 2, {0, 1}) * 2; }, shape);
  expect_same([](const Tensor& x) { return flip(slice(x, 2, {-1, {}, -2}), {0, 1}); }, shape);
  expect_same([](const Tensor& x) { return pad(x, {{1, 0}, {0, 2}}, 3); }, shape);
  expect_same([](const Tensor& x) { return concat({x, x * 2, slice(x, 1, {0, 2})}, 1); }, shape);
  expect_same([](const Tensor& x) { return expand(slice(x, 0, {0, 1}), {6, 4, 5}); }, shape);
  expect_same(
      [](const Tensor& x) {
        return unsqueeze(x, 1) + arange(0, 4, 1, DType::f32, &x.device()).reshape({4, 1});
      },
      shape);
  expect_same([](const Tensor& x) { return full({2, 3}, 4, DType::f32, &x.device()); }, shape);
}

TEST_F(OnnxExport, ReductionsAndOrder) {
  const Shape shape{3, 4, 5};
  expect_same([](const Tensor& x) { return sum(x, {0, 2}); }, shape);
  expect_same([](const Tensor& x) { return prod(x, {1}, true); }, shape);
  expect_same([](const Tensor& x) { return max(x, {1}) - min(x, {1}); }, shape);
  expect_same([](const Tensor& x) { return mean(x); }, shape);
  expect_same([](const Tensor& x) { return var(x, {1}) + logsumexp(x, {1}); }, shape);
  expect_same([](const Tensor& x) { return argmax(x, 1) * 10 + argmin(x, 1); }, shape);
  expect_same([](const Tensor& x) { return topk(x, 2).indices; }, shape);
  expect_same([](const Tensor& x) { return cumsum(x, 1, true, true); }, shape);
  expect_same([](const Tensor& x) { return softmax(x, 1) + log_softmax(x, 2); }, shape);
  expect_same([](const Tensor& x) { return sum(x, {0}); }, shape, DType::i32);
}

TEST_F(OnnxExport, Indices) {
  const Shape shape{3, 4};
  const Tensor rows = Tensor::from_vector(std::vector<int32_t>{2, 0, -1, 1}, {2, 2}, &host());
  expect_same([&](const Tensor& x) { return take(x, rows, 0); }, shape);
  expect_same([&](const Tensor& x) { return gather(x, 1, rows); }, shape);
  const Tensor targets = Tensor::from_vector(std::vector<int32_t>{2, 0, 1}, {3}, &host());
  expect_same([&](const Tensor& x) { return cross_entropy(x, targets); }, shape);
}

TEST_F(OnnxExport, Products) {
  const Tensor w = random({5, 6}), b = random({6}), batch = random({2, 1, 5, 4});
  expect_same([&](const Tensor& x) { return matmul(x, w) + b; }, {3, 4, 5});
  expect_same([&](const Tensor& x) { return matmul(x, batch); }, {3, 4, 5});
  expect_same([&](const Tensor& x) { return linear(x, transpose(w), b); }, {4, 5});
  expect_same([&](const Tensor& x) { return matmul(x, slice(w, 1, {0, 1}).reshape({5})); }, {4, 5});
}

TEST_F(OnnxExport, ConvolutionsAndPools) {
  const Tensor w = random({4, 2, 3, 3}), b = random({4}), depth = random({4, 1, 3, 3}), back = random({4, 2, 3, 3});
  const Shape shape{2, 4, 9, 8};
  expect_same(
      [&](const Tensor& x) {
        return conv2d(x, w, b, {.stride = {2}, .padding = {1, 0, 2, 1}, .groups = 2});
      },
      shape);
  expect_same([&](const Tensor& x) { return conv2d(x, depth, {}, {.dilation = {2}, .groups = 4}); }, shape);
  expect_same(
      [&](const Tensor& x) {
        return conv_transpose2d(x, back, {}, {.stride = {2}, .padding = {1}, .output_padding = {1}});
      },
      shape);
  expect_same(
      [&](const Tensor& x) {
        return conv2d(permute(x, {0, 2, 3, 1}), depth, b, {.groups = 4, .layout = ConvLayout::channels_last});
      },
      shape);
  expect_same([](const Tensor& x) { return max_pool2d(x, {3}, {.stride = {2}, .padding = {1}}); }, shape);
  expect_same([](const Tensor& x) { return max_pool2d(x, {2}, {.ceil = true}); }, shape);
  expect_same([](const Tensor& x) { return avg_pool2d(x, {2}); }, shape);
  expect_same(
      [](const Tensor& x) { return avg_pool2d(x, {3}, {.stride = {2}, .padding = {1}, .count_padding = true}); },
      shape);
  expect_same(
      [](const Tensor& x) { return avg_pool2d(x, {3}, {.stride = {2}, .padding = {1}, .count_padding = false}); },
      shape);
  expect_same([](const Tensor& x) { return adaptive_avg_pool2d(x, {1}); }, shape);
  expect_same([](const Tensor& x) { return interpolate(x, {.scale = {2}, .mode = Interpolation::linear}); }, shape);
}

TEST_F(OnnxExport, Norms) {
  const Tensor w = random({4}), b = random({4}), mean_of = random({4}), var_of = abs(random({4}));
  eval({w, b, mean_of, var_of});
  const Shape shape{2, 4, 3, 4};
  expect_same([&](const Tensor& x) { return layer_norm(x, {4}, w, b) + layer_norm(x, {3, 4}); }, shape);
  expect_same([&](const Tensor& x) { return group_norm(x, 2, w, b) + group_norm(x, 4); }, shape);
  expect_same([&](const Tensor& x) { return batch_norm(x, mean_of, var_of, w, b, false); }, shape);
  expect_same([&](const Tensor& x) { return batch_norm(x, mean_of, var_of, {}, {}, false); }, shape);
  expect_same([&](const Tensor& x) { return rms_norm(x, w); }, shape);
}

TEST_F(OnnxExport, Attention) {
  const Shape shape{2, 2, 5, 4};
  const Tensor bias = random({1, 2, 5, 5});
  const Tensor mask = Tensor::from_vector(std::vector<float>{1, 1, 0, 1, 0, 0, 0, 0, 0, 0}, {2, 5}, &host()) > 0;
  eval({bias, mask});
  const auto attend = [](const Tensor& x, const AttentionOptions& how) {
    return scaled_dot_product_attention(x, x * 2, x + 1, how);
  };
  AttentionOptions causal, biased, masked, scaled, both;
  causal.causal = both.causal = true;
  biased.bias = both.bias = bias;
  masked.key_mask = mask;
  for (const AttentionOptions& how : {AttentionOptions{}, causal, biased, masked, both})
    expect_same([&](const Tensor& x) { return attend(x, how); }, shape);
  // Of what has no function, as near as simpler rows come.
  scaled.scale = 0.3;
  const onnx::Model model = exported([&](const std::vector<Tensor>& x) { return std::vector{attend(x[0], scaled)}; },
                                     {{"x", DType::f32, sizes({2, 2, 5, 4})}}, {});
  expect_near(model.call({random(shape)})[0], attend(random(shape), scaled), 17);
}

TEST_F(OnnxExport, OtherDtypes) {
  for (const DType t : {DType::f64, DType::f16, DType::bf16}) {
    const Tensor w = random({5, 6}, t);
    expect_same([&](const Tensor& x) { return gelu(matmul(x, w)) * 0.5; }, {3, 5}, t);
  }
}

// ---- sizes that vary

TEST_F(OnnxExport, SeveralSizesVary) {
  nn::Gpt model({.vocabulary = 9, .context = 64, .layers = 1, .heads = 2, .width = 8}, on());
  model.eval();
  const ExportFunction f = [&](const std::vector<Tensor>& x) { return std::vector{model(x[0])}; };
  expect_same(f, {{"x", DType::i32, {{{}, "N"}, {{}, "T"}}}},
              {{random({2, 5}, DType::i32)}, {random({1, 9}, DType::i32)}}, {.names = model.state_dict()});
  ASSERT_TRUE(report.outputs[0].shape);
  EXPECT_EQ(report.outputs[0].shape->at(1).str(), "T");
}

TEST_F(OnnxExport, SizesThatVaryInEveryPlace) {
  const ExportFunction f = [](const std::vector<Tensor>& x) {
    const Tensor& a = x[0];
    const int64_t n = a.dim(0);
    const Tensor grid = expand(unsqueeze(a, 0), {3, n, 4});
    return std::vector{reshape(grid, {3 * n, 4}),
                       slice(a, 0, {1, {}}),
                       slice(a, 0, {0, n - 2}),
                       zeros({n, 3}, DType::f32, &a.device()),
                       arange(0, static_cast<double>(n), 1, DType::i32, &a.device()) * 2,
                       pad(a, {{0, n}}),
                       flip(a, {0}),
                       concat({a, a}, 0)};
  };
  expect_same(f, {{"x", DType::f32, sizes({-1, 4})}}, {{random({3, 4})}, {random({6, 4})}});
}

TEST_F(OnnxExport, WhatFollowsNoSizeIsSaid) {
  const std::vector<ExportInput> inputs{{"x", DType::f32, sizes({-1, 4})}};
  const auto refused = [&](const std::function<Tensor(const Tensor&)>& f, std::initializer_list<const char*> words) {
    expect_error<ValueError>(
        [&] { exported([&](const std::vector<Tensor>& x) { return std::vector{f(x[0])}; }, inputs, {}); }, words);
    EXPECT_FALSE(std::filesystem::exists(folder / "net.onnx"));
  };
  refused([](const Tensor& x) { return x * (1.0 / static_cast<double>(x.dim(0))); }, {"[export]", "size that varies"});
  refused([](const Tensor& x) { return x.dim(0) > 12 ? exp(x) : x + 1; },
          {"[export]", "other operations for other sizes"});
  refused([](const Tensor& x) { return slice(x, 0, {0, x.dim(0) * x.dim(0) % 7}); }, {"[export]", "in no simple way"});
  refused([](const Tensor& x) { return x * x.sum().item(); }, {"[export]", "looks at values"});
}

// ---- errors, names, files

TEST_F(OnnxExport, AllThatIsLackingIsNamedAtOnce) {
  const ExportFunction f = [](const std::vector<Tensor>& x) {
    return std::vector{lgamma(x[0]) + erfinv(x[0]) + erfinv(x[0] * 0.5)};
  };
  expect_error<ValueError>(
      [&] {
        exported(f, {{"x", DType::f32, sizes({-1, 4})}}, {});
      },
      {"[export]", "opset 17", "erfinv (2 nodes)", "lgamma (1 node)"});
  EXPECT_FALSE(std::filesystem::exists(folder / "net.onnx"));
}

TEST_F(OnnxExport, BadOptionsAreSaid) {
  const ExportFunction f = [](const std::vector<Tensor>& x) { return std::vector{x[0] + 1}; };
  const std::vector<ExportInput> inputs{{"x", DType::f32, sizes({-1, 4})}};
  expect_error<ValueError>([&] { exported(f, inputs, {.opset = 16}); }, {"[export]", "opset 16", "17 to 21"});
  expect_error<ValueError>([&] { exported(f, inputs, {.outputs = {"a", "b"}}); }, {"2 names for 1 outputs"});
  expect_error<ValueError>([&] { exported(f, inputs, {.outputs = {"x"}}); }, {"'x'", "taken"});
  expect_error<ValueError>(
      [&] {
        exported(f, {{"x", DType::f32, {Dimension{}}}}, {});
      },
      {"neither a number nor a name"});
}

TEST_F(OnnxExport, NamesAndBytesAreTheSameEachTime) {
  nn::Mlp model({.in = 12, .hidden = {8}, .out = 4}, on());
  const ExportFunction f = [&](const std::vector<Tensor>& x) { return std::vector{model(x[0])}; };
  const std::vector<ExportInput> inputs{{"pixels", DType::f32, sizes({-1, 12})}};
  const ExportOptions options{.outputs = {"logits"}, .names = model.state_dict(), .properties = {{"made", "here"}}};
  const onnx::Model loaded = exported(f, inputs, options);
  EXPECT_EQ(loaded.inputs()[0].name, "pixels");
  EXPECT_EQ(loaded.outputs()[0].name, "logits");
  EXPECT_EQ(loaded.outputs()[0].shape->at(0).str(), "N");
  const onnx::ModelFile file = onnx::export_model(f, inputs, {.names = model.state_dict(), .device = &host()});
  for (const auto& [name, value] : model.state_dict()) EXPECT_EQ(file.graph.constants.count(name), 1u) << name;
  const std::vector<uint8_t> first = read_file(folder / "net.onnx", "test");
  exported(f, inputs, options);
  EXPECT_EQ(read_file(folder / "net.onnx", "test"), first);
}

TEST_F(OnnxExport, WeightsMayLieBesideTheFile) {
  nn::Mlp model({.in = 40, .hidden = {30}, .out = 4}, on());
  const ExportFunction f = [&](const std::vector<Tensor>& x) { return std::vector{model(x[0])}; };
  const std::vector<ExportInput> inputs{{"x", DType::f32, sizes({-1, 40})}};
  const Tensor x = random({2, 40});
  const onnx::Model loaded = exported(f, inputs, {.external_data = true, .names = model.state_dict()});
  EXPECT_EQ(report.external_bytes, 4u * 40 * 30);  // the others are small
  EXPECT_EQ(read_file(folder / "net.onnx.data", "test").size(), report.external_bytes);
  EXPECT_EQ(loaded.call({x})[0].to_bytes(), model(x).to_bytes());
  std::filesystem::remove(folder / "net.onnx.data");
  expect_error<IoError>([&] { onnx::load(folder / "net.onnx"); }, {"net.onnx.data"});
}

TEST_F(OnnxExport, AFileThatCannotBeWrittenLeavesNothing) {
  const ExportFunction f = [](const std::vector<Tensor>& x) { return std::vector{x[0] + 1}; };
  const std::vector<ExportInput> inputs{{"x", DType::f32, sizes({-1, 40})}};
  expect_error<IoError>([&] { onnx::save(folder / "none/net.onnx", f, inputs, {.device = &host()}); }, {"none"});
  std::filesystem::create_directory(folder / "net.onnx");
  expect_error<IoError>([&] { onnx::save(folder / "net.onnx", f, inputs, {.device = &host()}); }, {"net.onnx"});
  for (const auto& entry : std::filesystem::directory_iterator(folder / ""))
    EXPECT_EQ(entry.path().filename(), "net.onnx");
}

TEST_F(OnnxExport, ResultsThatAreInputsOrOneAnother) {
  const ExportFunction f = [](const std::vector<Tensor>& x) {
    const Tensor y = x[0] + 1;
    return std::vector{x[0], y, y, broadcast_to(x[0], {2, 3, 4})};
  };
  expect_same(f, {{"x", DType::f32, sizes({3, 4})}}, {{random({3, 4})}});
}

}  // namespace
}  // namespace heddle::tests
