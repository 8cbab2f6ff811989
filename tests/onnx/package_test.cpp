// Models as `.heddle` files: what comes back is what went in, whatever held the weights, and damaged files are refused.
#include "heddle/onnx/package.h"

#include <gtest/gtest.h>

#include <fstream>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/io/model_parts.h"
#include "heddle/io/read_file.h"
#include "heddle/io/write_model_parts.h"
#include "heddle/onnx/import.h"
#include "heddle/onnx/parse.h"
#include "tests/onnx/wire.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using onnx::ModelFile;

std::string bytes_of_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
std::vector<float> counted(size_t n, float first) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

class OnnxPackage : public testing::Test {
 protected:
  static constexpr int64_t n = 37;
  static Wire held(const char* name, float first) { return tensor(name, f32, {n}, bytes_of_floats(counted(n, first))); }
  // x + w + e, in a branch + c; of them w in the file, e beside it, c in the node of a branch, s too small to move.
  std::string bytes() const {
    Wire e = tensor("e", f32, {n}, "");
    e.number(14, 1)
        .message(13, Wire().text(1, "location").text(2, "beside"))
        .message(13, Wire().text(1, "offset").text(2, "4"));
    const Wire branch =
        graph({node("Constant", {}, {"c"}, {attribute_tensor("value", held("", 3))}), node("Add", {"b", "c"}, {"t"})},
              {}, {port("t", f32, {n})});
    const Wire other = graph({node("Identity", {"b"}, {"o"})}, {}, {port("o", f32, {n})});
    return model(graph(
        {node("Add", {"x", "w"}, {"a"}), node("Add", {"a", "e"}, {"d"}), node("Mul", {"d", "s"}, {"b"}),
         node("If", {"yes"}, {"y"}, {attribute_graph("then_branch", branch), attribute_graph("else_branch", other)})},
        {port("x", f32, {n}), port("yes", boolean, {})}, {port("y", f32, {n})},
        {held("w", 1), e, tensor("s", f32, {1}, bytes_of_floats({2}))}));
  }
  void SetUp() override {
    write("net.onnx", bytes());
    write("beside", "1234" + bytes_of_floats(counted(n, 2)));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
  }
  std::string package(const onnx::InputShapes& shapes = {}) const {
    const std::string path = folder / "net.heddle";
    onnx::write_package(folder / "net.onnx", path, shapes);
    return path;
  }
  static std::vector<float> run(const std::string& path, bool yes) {
    DeviceContext& host = device("reference:0");
    onnx::LoadOptions options;
    options.device = &host;
    const onnx::Model model = onnx::load(path, options);
    const Tensor x = Tensor::from_vector(counted(n, 0), {n}, &host);
    const Tensor choice = full({}, yes ? 1.0 : 0.0, DType::boolean, &host);
    return model.call({x, choice})[0].to_vector<float>();
  }
  test::TemporaryFolder folder;
};

TEST_F(OnnxPackage, GivesWhatTheModelGives) {
  const std::string path = package();
  std::filesystem::remove(folder / "beside");  // all of it is in the package
  for (const bool yes : {true, false}) {
    const std::vector<float> y = run(path, yes);
    for (size_t i = 0; i < y.size(); ++i) {
      const auto at = static_cast<float>(i);
      EXPECT_EQ(y[i], (at + (1 + at) + (2 + at)) * 2 + (yes ? 3 + at : 0)) << i;
    }
  }
}

TEST_F(OnnxPackage, HoldsEachTensorAtAMultipleOf64) {
  const ModelParts parts = ModelParts::read(package());
  EXPECT_EQ(parts.metadata().at("made_from"), "net.onnx");
  const PartEntry& weights = parts.only(PartKind::weights);
  EXPECT_EQ(weights.bytes, 2 * 192u + n * sizeof(float));
  EXPECT_LT(parts.only(PartKind::graph).bytes, 900u);
  const std::string_view held = parts.text(weights);
  for (const auto& [offset, first] : {std::pair<size_t, float>{0, 1}, {192, 2}, {384, 3}})
    EXPECT_EQ(held.substr(offset, n * sizeof(float)), bytes_of_floats(counted(n, first))) << offset;
}

TEST_F(OnnxPackage, IsTheSameEachTime) {
  const std::vector<uint8_t> first = read_file(package(), "test");
  EXPECT_EQ(read_file(package(), "test"), first);
}

TEST_F(OnnxPackage, SizesOfInputsAreKept) {
  const ModelFile file = onnx::read_package(package({{"x", {{{}, "N"}}}}));
  ASSERT_TRUE(file.graph.inputs[0].shape);
  EXPECT_EQ(file.graph.inputs[0].shape->at(0).str(), "N");
  expect_error<ValueError>([&] { package({{"z", {}}}); }, {"no tensor 'z'"});
}

TEST_F(OnnxPackage, WhatIsMalformedIsNotWritten) {
  std::filesystem::remove(folder / "beside");
  expect_error<IoError>([&] { package(); }, {"[onnx]", "'beside'", "cannot be opened"});
  EXPECT_FALSE(std::filesystem::exists(folder / "net.heddle"));
}

TEST_F(OnnxPackage, DamagedOnesAreRefused) {
  const std::string path = package();
  const std::vector<uint8_t> whole = read_file(path, "test");
  for (const size_t at : {size_t{20}, size_t{70}, whole.size() / 2, whole.size() - 1}) {
    std::vector<uint8_t> damaged = whole;
    damaged[at] ^= 1;
    test::write_bytes(path, damaged);
    expect_error<IoError>([&] { onnx::read_package(path); }, {"net.heddle"});
  }
  test::write_bytes(path, {whole.begin(), whole.end() - 100});
  expect_error<IoError>([&] { onnx::read_package(path); }, {"net.heddle"});
}

// A package's graph may name nothing but its own weights.
TEST_F(OnnxPackage, FilesAreNotRead) {
  const std::string graph = bytes();
  const std::vector<ModelPart> parts = {
      {.name = "graph", .kind = PartKind::graph, .bytes = bytes_of(graph), .attributes = {{"format", "onnx"}}}};
  write_model_parts(folder / "own.heddle", parts);
  expect_error<IoError>([&] { onnx::read_package(folder / "own.heddle"); }, {"'beside'", "is not in the file"});
  const std::vector<ModelPart> other = {{.name = "graph", .kind = PartKind::graph, .bytes = bytes_of(graph)}};
  write_model_parts(folder / "other.heddle", other);
  expect_error<IoError>([&] { onnx::read_package(folder / "other.heddle"); }, {"not of ONNX"});
}

}  // namespace
}  // namespace heddle::tests
