// PyTorch's files of state dicts: files that PyTorch wrote (torch_values.json, made by torch_values.py), and files that
// lie.
#include "heddle/io/torch_archive.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/io/pickle.h"
#include "tests/support/hex.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/torch_file.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using namespace std::string_literals;  // texts with NULs in them
using test::contains;

const Json& recorded_archives() {
  static const Json values = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/torch_values.json"));
  return values;
}

std::vector<uint8_t> bytes_of_text(const std::string& text) { return {text.begin(), text.end()}; }

DType dtype_named(const std::string& name) {
  static const std::map<std::string, DType> names = {
      {"float32", DType::f32}, {"float16", DType::f16}, {"bfloat16", DType::bf16},
      {"float64", DType::f64}, {"int8", DType::i8},     {"uint8", DType::u8},
      {"int32", DType::i32},   {"int64", DType::i64},   {"bool", DType::boolean}};
  return names.at(name);
}

TEST(TorchArchive, TensorsAreThoseOfPyTorch) {
  ASSERT_GE(recorded_archives()["cases"].size(), 10u);
  for (const Json& one : recorded_archives()["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const TorchArchive archive = read_torch(FileBytes::of(test::bytes_of_hex(one["file"])), "file");
    EXPECT_EQ(archive.tensors.size(), one["tensors"].size());
    for (const auto& [name, expected] : one["tensors"].items()) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(archive.tensors.contains(name));
      const TensorBytes& tensor = archive.tensors.at(name);
      EXPECT_EQ(tensor.dtype, dtype_named(expected["dtype"]));
      EXPECT_EQ(tensor.shape, Shape(expected["shape"].get<std::vector<int64_t>>()));
      EXPECT_EQ(std::vector<uint8_t>(tensor.bytes.begin(), tensor.bytes.end()), test::bytes_of_hex(expected["bytes"]));
    }
  }
}

TEST(TorchArchive, LoadsToADevice) {
  test::TemporaryFolder folder;
  const std::string path = folder / "state.pt";
  test::write_bytes(path, bytes_of_text(test::torch_archive(test::torch_state(), std::string(64, '\0'))));
  const TensorMap tensors = load_torch(path, &device("reference:0"));
  ASSERT_TRUE(tensors.contains("w"));
  EXPECT_EQ(tensors.at("w").shape(), (Shape{2, 3}));
  EXPECT_EQ(tensors.at("w").to_vector<float>(), std::vector<float>(6, 0.f));
}

class TorchFile : public testing::Test {
 protected:
  std::string error_of(const std::vector<uint8_t>& file) {
    const std::string text = test::thrown_text<IoError>([&] { read_torch(FileBytes::of(file), "some.pt"); });
    EXPECT_TRUE(contains(text, "[torch] some.pt: "));
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  std::string error_of_recorded(const char* name) {
    return error_of(test::bytes_of_hex(recorded_archives()["refused"][name]));
  }
  std::string error_of_pickle(const std::string& pickle, size_t storage_bytes = 64) {
    return error_of(bytes_of_text(test::torch_archive(pickle, std::string(storage_bytes, '\0'))));
  }
  // The state dict of one tensor of other numbers.
  std::string error_of_tensor(const test::TorchTensor& tensor) { return error_of_pickle(test::torch_state(tensor)); }
};

TEST_F(TorchFile, WhatIsNoTensorIsRefusedByName) {
  EXPECT_TRUE(contains(error_of_recorded("a module"), "'torch.nn.modules"));
  EXPECT_TRUE(contains(error_of_recorded("an object"), "'__main__.Own'"));
  EXPECT_TRUE(contains(error_of_recorded("a function"), "'__builtin__.print'"));
  EXPECT_TRUE(contains(error_of_recorded("complex"), "'torch.ComplexFloatStorage'"));
  EXPECT_TRUE(contains(error_of_recorded("sparse"), "'torch._utils._rebuild_sparse_tensor'"));
  EXPECT_TRUE(contains(error_of_recorded("a set"), "set'"));
  EXPECT_TRUE(contains(error_of_recorded("script"), "TorchScript"));
  EXPECT_TRUE(contains(error_of_recorded("no tensors"), "no dict of tensors, but 'epoch', 'x'"));
  EXPECT_TRUE(contains(error_of_recorded("a list"), "no dict of tensors"));
  EXPECT_TRUE(contains(error_of_recorded("expanded"), "'x' has 1000 elements of a storage of 1"));
  EXPECT_TRUE(contains(error_of_recorded("big"), "big-endian"));
  EXPECT_TRUE(contains(error_of_recorded("deflated"), "is compressed"));
  EXPECT_TRUE(contains(error_of_recorded("no storage"), "no storage '0'"));
}

TEST_F(TorchFile, APickleCallsNothing) {
  EXPECT_TRUE(contains(error_of_pickle("\x80\2cos\nsystem\n(X\4\0\0\0truetR."s), "names 'os.system'"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\4\x8c\5posix\x8c\6system\x93."s), "names 'posix.system'"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2cbuiltins\neval\n."s), "names 'builtins.eval'"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2ctorch._utils\n_rebuild_tensor_v2\n)\x81."s), "object of a class"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2ctorch._utils\n_rebuild_tensor_v2\n)R."s), "no dict of tensors"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n)Rs."s), "0 arguments"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2NNR."s), "calls what is no function"));
}

TEST_F(TorchFile, TensorsThatLie) {
  constexpr int64_t huge = int64_t{1} << 60;
  EXPECT_TRUE(contains(error_of_tensor({.sizes = {huge, huge}}), "overflow"));
  EXPECT_TRUE(contains(error_of_tensor({.sizes = {huge, 1}}), "reaches element"));
  EXPECT_TRUE(contains(error_of_tensor({.sizes = {huge, 3}, .strides = {0, 1}}), "elements of a storage of 16"));
  EXPECT_TRUE(contains(error_of_tensor({.offset = 11}), "reaches element 16 of a storage of 16"));
  EXPECT_TRUE(contains(error_of_tensor({.offset = -1}), "size, stride or offset that is none"));
  EXPECT_TRUE(contains(error_of_tensor({.strides = {-1, 1}}), "size, stride or offset that is none"));
  EXPECT_TRUE(contains(error_of_tensor({.strides = {1}}), "2 sizes and 1 strides"));
  EXPECT_TRUE(contains(error_of_tensor({.sizes = std::vector<int64_t>(9, 1), .strides = std::vector<int64_t>(9, 1)}),
                       "9 dimensions, at most 8"));
  EXPECT_TRUE(contains(error_of_tensor({.storage_numel = 17}), "storage '0' of 17 f32 has 64 bytes"));
  EXPECT_TRUE(contains(error_of_tensor({.storage_numel = huge}), "has 64 bytes"));
  EXPECT_TRUE(contains(error_of_tensor({.key = "../0"}), "no storage '../0'"));
  EXPECT_TRUE(contains(error_of_pickle(test::torch_state({}, {"w", "w"})), "the key 'w' is there twice"));
}

// Many tensors over one storage must not fill the memory.
TEST_F(TorchFile, SharingHasALimit) {
  std::vector<std::string> names;
  for (int i = 0; i < 3000; ++i) names.push_back(std::to_string(i));
  const std::string turned =
      test::torch_state({.sizes = {1000, 1000}, .strides = {1, 1000}, .storage_numel = 1'000'000}, names);
  EXPECT_TRUE(contains(error_of_pickle(turned, 4'000'000), "more than the file"));
  const std::string plain =
      test::torch_state({.sizes = {1000, 1000}, .strides = {1000, 1}, .storage_numel = 1'000'000}, names);
  EXPECT_TRUE(contains(error_of_pickle(plain, 4'000'000), "more than 16 times the file"));
}

TEST_F(TorchFile, DamageIsFound) {
  const std::string good = test::torch_archive(test::torch_state(), std::string(64, '\0'));
  read_torch(FileBytes::of(bytes_of_text(good)), "good.pt");
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(read_torch(FileBytes::of(bytes_of_text(good.substr(0, length))), "cut.pt"), IoError) << length;
  std::string bad = good;
  bad[bad.find(std::string(64, '\0')) + 30] = 1;
  EXPECT_TRUE(contains(error_of(bytes_of_text(bad)), "does not match its size and checksum"));
  const std::string legacy = test::legacy_torch_file(test::torch_state(), std::string(64, '\0'));
  EXPECT_EQ(read_torch(FileBytes::of(bytes_of_text(legacy)), "good.pth").tensors.size(), 1u);
  for (size_t length = 0; length < legacy.size(); ++length)
    EXPECT_THROW(read_torch(FileBytes::of(bytes_of_text(legacy.substr(0, length))), "cut.pth"), IoError) << length;
  EXPECT_TRUE(contains(error_of({}), "no archive of torch.save()"));
}

TEST_F(TorchFile, PicklesThatAreNone) {
  EXPECT_TRUE(contains(error_of_pickle(""), "truncated pickle"));
  EXPECT_TRUE(contains(error_of_pickle("(dp0\n."), "protocol 2 or later"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\6N."s), "of protocol 6"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2."s), "a value that is not there"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2N(0."s), "a value that is not there"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2u."s), "a mark that is not there"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2h\5."s), "remembers what it never made"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2N(NNu."s), "adds to what is no list or dict"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2}(Nu."s), "adds to what is no list or dict"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2X\xff\xff\xff\xffx."s), "truncated pickle"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2\xff."s), "operation 0xff"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2" + std::string(600'000, 'N') + "."), "more than 524288 values"));
  EXPECT_TRUE(contains(error_of_pickle("\x80\2]q\0h\0a."s), "no dict of tensors"));  // a list that holds itself
}

TEST(PickleTest, Values) {
  const std::string bytes =
      "\x80\4\x95\1\0\0\0\0\0\0\0]\x94(K\1M\2\1J\xfe\xff\xff\xff\x8a\2\0\x80G?\xe0\0\0\0\0\0\0\x88N\x8c\1a\x85"
      "e.rest"s;
  const std::vector<uint8_t> raw = bytes_of_text(bytes);
  const Pickle pickle = read_pickle(raw, {}, "test", "text");
  EXPECT_EQ(pickle.bytes, raw.size() - 4);
  const std::vector<uint32_t>& items = pickle.root_value().items;
  ASSERT_EQ(items.size(), 8u);
  EXPECT_EQ(pickle.at(items[0]).integer, 1);
  EXPECT_EQ(pickle.at(items[1]).integer, 258);
  EXPECT_EQ(pickle.at(items[2]).integer, -2);
  EXPECT_EQ(pickle.at(items[3]).integer, -32768);
  EXPECT_EQ(pickle.at(items[4]).number, 0.5);
  EXPECT_EQ(pickle.at(items[5]).kind, PickleValue::Kind::boolean);
  EXPECT_EQ(pickle.at(items[6]).kind, PickleValue::Kind::none);
}

}  // namespace
}  // namespace heddle
