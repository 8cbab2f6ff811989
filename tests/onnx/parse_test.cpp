// Files that are no models, or lie: refused by name, before memory is taken.
#include "heddle/onnx/parse.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "heddle/core/base/error.h"
#include "tests/onnx/parsed.h"
#include "tests/onnx/wire.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using onnx::ModelFile;
using onnx::parse_model;
using ports::x;
using ports::y;

void refused(const std::string& bytes, std::initializer_list<const char*> pieces) {
  expect_error<IoError>([&] { parsed(bytes); }, pieces);
}

TEST(OnnxParse, ReadsNodesTensorsAndPorts) {
  const Wire weight = tensor("w", i64, {2}, std::vector<int64_t>{-3, 1});
  const ModelFile m = parsed(model(graph({node("Gather", {"x", "w"}, {"y"}, {attribute("axis", int64_t{-1})}, "pick")},
                                         {port("x", f32, {-1, 3})}, {y}, {weight}),
                                   13));
  ASSERT_EQ(m.graph.nodes.size(), 1u);
  const onnx::Node& n = m.graph.nodes[0];
  EXPECT_EQ(n.op, "Gather");
  EXPECT_EQ(n.label, "pick");
  EXPECT_EQ(std::get<int64_t>(n.attributes.at("axis").value), -1);
  EXPECT_EQ(m.opsets.at(""), 13);
  EXPECT_EQ(m.graph.constants.at("w").ints(), (std::vector<int64_t>{-3, 1}));
  ASSERT_EQ(m.graph.inputs[0].shape->size(), 2u);
  EXPECT_EQ((*m.graph.inputs[0].shape)[0].name, "N1");
  EXPECT_EQ((*m.graph.inputs[0].shape)[1].size, 3);
}

TEST(OnnxParse, ListedValuesAreThoseOfTheType) {
  // int32_data of three bytes, as packed numbers; f16 bits in int32_data.
  const onnx::HostTensor u8 =
      onnx::parse_tensor(Wire().number(1, 3).number(2, 2).text(5, std::string("\x01\x7f\x05", 3)).bytes(), "t");
  EXPECT_EQ(u8.ints(), (std::vector<int64_t>{1, 127, 5}));
  const onnx::HostTensor half =
      onnx::parse_tensor(Wire().number(1, 1).number(2, 10).text(5, std::string("\x80\x78", 2)).bytes(), "t");
  EXPECT_EQ(half.reals(), (std::vector<double>{1.0}));  // 0x3c00
}

TEST(OnnxParse, NodesArePutInOrder) {
  const ModelFile m = parsed(model(graph({node("Relu", {"h"}, {"y"}), node("Neg", {"x"}, {"h"})}, {x}, {y})));
  EXPECT_EQ(m.graph.nodes[0].op, "Neg");
  EXPECT_EQ(m.graph.nodes[1].op, "Relu");
}

TEST(OnnxParse, WhatIsNoModelIsRefused) {
  refused("", {"net.onnx", "no graph"});
  refused("GIF89a something else entirely", {"net.onnx"});
  const std::string whole = model(graph({node("Relu", {"x"}, {"y"})}, {x}, {y}));
  for (size_t cut = 1; cut + 6 < whole.size(); ++cut) refused(whole.substr(0, cut), {"net.onnx"});
}

TEST(OnnxParse, NamesAreUsedOnceAndMade) {
  refused(model(graph({node("Relu", {"x"}, {"y"}), node("Neg", {"x"}, {"y"})}, {x}, {y})), {"'y'", "is taken"});
  refused(model(graph({node("Relu", {"nowhere"}, {"y"})}, {x}, {y})), {"'nowhere'", "nothing makes"});
  refused(model(graph({node("Relu", {"x"}, {"h"})}, {x}, {y})), {"output 'y'", "made by no node"});
  refused(
      model(graph({node("Add", {"x", "b"}, {"a"}, {}, "first"), node("Relu", {"a"}, {"b"}), node("Neg", {"b"}, {"y"})},
                  {x}, {y})),
      {"first", "depends on itself"});
  const Wire w = tensor("w", f32, {1}, std::string(4, '\0'));
  refused(model(graph({node("Add", {"x", "w"}, {"y"})}, {x}, {y}, {w, w})), {"two initializers", "'w'"});
}

TEST(OnnxParse, ClaimsAreComparedWithTheFile) {
  const auto with = [](const Wire& w) { return model(graph({node("Add", {"x", "w"}, {"y"})}, {x}, {y}, {w})); };
  refused(with(tensor("w", f32, {int64_t{1} << 58}, "abcd")), {"'w'", "takes", "has 4"});
  refused(with(tensor("w", f32, {int64_t{1} << 60}, "abcd")), {"'w'"});
  refused(with(tensor("w", f32, {int64_t{1} << 40, int64_t{1} << 40}, "")), {"'w'", "overflow"});
  refused(with(tensor("w", f32, {-2}, "")), {"'w'", "-2"});
  refused(with(tensor("w", f32, {2}, "abcd")), {"'w'", "takes 8 bytes and has 4"});
  refused(with(tensor("w", f32, std::vector<int64_t>(9, 1), "abcd")), {"9 dimensions"});
}

// A block says that it is longer than what is left, or than memory.
TEST(OnnxParse, LengthsAreComparedWithTheFile) {
  std::string bytes = model(graph({node("Relu", {"x"}, {"y"})}, {x}, {y}));
  bytes += std::string("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
  refused(bytes, {"cut off"});
}

TEST(OnnxParse, GraphsAreNestedAtMost64Deep) {
  const auto nested = [](int depth) {
    Wire inner = graph({node("Identity", {"x"}, {"y0"})}, {}, {port("y0", f32, {2})});
    for (int i = 1; i < depth; ++i) {
      const std::string name = "y" + std::to_string(i);
      inner = graph({node("If", {"c"}, {name},
                          {attribute_graph("then_branch", inner),
                           attribute_graph("else_branch", graph({node("Identity", {"x"}, {"e" + std::to_string(i)})},
                                                                {}, {port("e" + std::to_string(i), f32, {2})}))})},
                    i + 1 == depth ? std::vector<Wire>{x, port("c", boolean, {})} : std::vector<Wire>{},
                    {port(name, f32, {2})});
    }
    return model(inner);
  };
  EXPECT_EQ(parsed(nested(64)).graph.nodes.size(), 1u);
  refused(nested(65), {"nested more than 64"});
  refused(nested(400), {"nested more than 64"});
}

// Two bytes of a file make an object of protobuf's of hundreds.
TEST(OnnxParse, MemoryIsBoundedByTheFile) {
  Wire many;
  for (int i = 0; i < 600'000; ++i) many.text(1, "");
  refused(Wire().message(7, many).bytes(), {"more memory"});
}

TEST(OnnxParse, FunctionsMayNotCallThemselves) {
  const auto function = [](const std::string& name, const std::string& calls) {
    return Wire()
        .text(1, name)
        .text(4, "a")
        .text(5, "b")
        .message(7, node(calls, {"a"}, {"b"}, {}, "", "own"))
        .message(9, opset(1, "own"))
        .text(10, "own");
  };
  refused(model(graph({node("f", {"x"}, {"y"}, {}, "", "own")}, {x}, {y}), 17, {function("f", "g"), function("g", "f")},
                {opset(1, "own")}),
          {"calls itself"});
}

TEST(OnnxParse, NamesInMessagesAreShort) {
  const std::string name(100'000, 'n');
  try {
    parsed(model(graph({node("Relu", {name}, {"y"})}, {x}, {y})));
    FAIL();
  } catch (const IoError& error) {
    EXPECT_LT(std::string(error.what()).size(), 1000u);
  }
}

// ---- data in other files

class OnnxExternal : public testing::Test {
 protected:
  std::string with(const std::string& location, const std::string& offset = "", const std::string& length = "") const {
    Wire w = tensor("w", f32, {2}, "");
    w.number(14, 1).message(13, Wire().text(1, "location").text(2, location));
    if (!offset.empty()) w.message(13, Wire().text(1, "offset").text(2, offset));
    if (!length.empty()) w.message(13, Wire().text(1, "length").text(2, length));
    return model(graph({node("Add", {"x", "w"}, {"y"})}, {x}, {y}, {w}));
  }
  ModelFile read(const std::string& bytes) const { return parse_model(bytes, "net.onnx", {folder.path() + "/models"}); }
  void refused(const std::string& bytes, std::initializer_list<const char*> pieces) const {
    expect_error<IoError>([&] { read(bytes); }, pieces);
  }
  void SetUp() override {
    std::filesystem::create_directories(folder / "models/sub");
    std::vector<uint8_t> bytes(12, 0);
    bytes[6] = 0x80;
    bytes[7] = 0x3f;  // the second float is 1
    for (const char* name : {"secret", "models/w", "models/sub/w"}) test::write_bytes(folder / name, bytes);
  }
  test::TemporaryFolder folder;
};

TEST_F(OnnxExternal, IsReadFromTheModelsFolder) {
  EXPECT_EQ(read(with("w")).graph.constants.at("w").reals(), (std::vector<double>{0, 1}));
  EXPECT_EQ(read(with("sub/w", "4", "8")).graph.constants.at("w").reals(), (std::vector<double>{1, 0}));
}

TEST_F(OnnxExternal, NamesThatLeaveTheFolderAreRefused) {
  for (const char* name : {"../secret", "sub/../../secret", "/etc/passwd", "", "./w", "sub//w", "sub\\w", "c:w"})
    refused(with(name), {"external data"});
  refused(with((folder / "secret")), {"relative"});
}

TEST_F(OnnxExternal, LinksSecondNamesAndPipesAreRefused) {
  std::filesystem::create_symlink(folder / "secret", folder / "models/link");
  std::filesystem::create_directory_symlink(folder.path(), folder / "models/up");
  std::filesystem::create_hard_link(folder / "secret", folder / "models/hard");
  ASSERT_EQ(::mkfifo((folder / "models/pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "up/secret", "hard", "pipe", "sub"})
    refused(with(name), {"external data", "link, has a second name"});
  refused(with("missing"), {"cannot be opened"});
}

TEST_F(OnnxExternal, PlacesAreComparedWithTheFile) {
  refused(with("w", "8"), {"has 12 bytes"});
  refused(with("w", "18446744073709551615"), {"no number of bytes"});
  refused(with("w", "999999999999999999"), {"has 12 bytes"});
  refused(with("w", "-4"), {"no number of bytes"});
  refused(with("w", "0", "4"), {"said to hold 4 bytes"});
}

}  // namespace
}  // namespace heddle::tests
