// ONNX export: sizes that vary, names, errors that leave no file, weights beside the file.
#include "heddle/onnx/export.h"

#include <filesystem>

#include "heddle/core/compile/compile.h"
#include "heddle/io/read_file.h"
#include "heddle/nn/models/gpt.h"
#include "heddle/nn/models/mlp.h"
#include "heddle/nn/models/resnet.h"
#include "tests/onnx/export_case.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

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

// Running statistics would be moved by stand-ins without values.
TEST_F(OnnxExport, ModelsInTrainingAreRefusedAndStayAsTheyAre) {
  nn::ResNet model({.blocks = {1}, .width = 4, .classes = 3, .small_input = true}, on());
  const ExportFunction f = [&](const std::vector<Tensor>& x) { return std::vector{model(x[0])}; };
  const std::vector<ExportInput> inputs{{"x", DType::f32, sizes({-1, 3, 4, 4})}};
  expect_error<ValueError>([&] { exported(f, inputs, {.names = model.state_dict()}); },
                           {"[export]", "evaluation mode"});
  model.eval();
  expect_model(model, {-1, 3, 4, 4});
}

TEST_F(OnnxExport, CompiledFunctions) {
  const Tensor w = random({5, 6});
  const auto compiled = compile([&](const Tensor& x) { return std::pair{softmax(matmul(x, w)), sum(x)}; });
  const ExportFunction f = [&](const std::vector<Tensor>& x) {
    const auto result = compiled(x[0]);
    return std::vector{result.first, result.second};
  };
  expect_same(f, {{"x", DType::f32, sizes({-1, 5})}}, {{random({2, 5})}, {random({7, 5})}});
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
