// GGUF: values and files of PyPI's gguf (gguf_values.json, made by gguf_values.py), round trips, files that lie.
#include "heddle/io/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/io/write_gguf.h"
#include "tests/support/hex.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;

const Json& recorded() {
  static const Json values = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/gguf_values.json"));
  return values;
}

std::vector<float> floats_of_hex(const std::string& hex) {
  const std::vector<uint8_t> bytes = test::bytes_of_hex(hex);
  std::vector<float> values(bytes.size() / 4);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Gguf small_file() { return Gguf::of(FileBytes::of(test::bytes_of_hex(recorded()["small"]["file"])), "small"); }

TEST(GgmlTypes, ValuesAreThoseOfThePackage) {
  std::set<uint32_t> seen;
  for (const Json& one : recorded()["blocks"]) {
    const auto type = one["type"].get<uint32_t>();
    seen.insert(type);
    const std::vector<float> expected = floats_of_hex(one["values"]);
    std::vector<float> values(expected.size());
    dequantise(static_cast<GgmlType>(type), test::bytes_of_hex(one["blocks"]), values);
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], expected[i]) << ggml_type_name(type) << " at " << i;
  }
  for (const GgmlBlock& block : ggml_blocks())
    EXPECT_TRUE(seen.contains(static_cast<uint32_t>(block.type))) << block.name;
}

TEST(GgmlTypes, AreFoundByNumberAndName) {
  EXPECT_EQ(block_of(GgmlType::q4_k).bytes, 144u);
  EXPECT_EQ(find_block(11), nullptr);
  EXPECT_EQ(ggml_type_name(11), "Q3_K");
  EXPECT_EQ(ggml_type_name(4), "type 4");
  EXPECT_EQ(ggml_type_name(4'000'000'000), "type 4000000000");
  EXPECT_THROW(block_of(static_cast<GgmlType>(11)), ValueError);
}

TEST(GgmlTypes, BytesMustBeTheValues) {
  std::vector<float> values(32);
  EXPECT_THROW(dequantise(GgmlType::q8_0, std::vector<uint8_t>(33), values), ValueError);
  EXPECT_THROW(dequantise(GgmlType::q8_0, std::vector<uint8_t>(68), values), ValueError);
  values.resize(31);
  EXPECT_THROW(dequantise(GgmlType::q8_0, std::vector<uint8_t>(34), values), ValueError);
}

TEST(Gguf, AFileOfThePackage) {
  const Gguf file = small_file();
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.at("general.architecture").as_text(), "llama");
  EXPECT_EQ(file.at("t.u8").as_unsigned(), 200u);
  EXPECT_EQ(file.at("t.i8").as_signed(), -100);
  EXPECT_EQ(file.at("t.u16").as_signed(), 60000);
  EXPECT_EQ(file.at("t.i16").as_signed(), -30000);
  EXPECT_EQ(file.at("t.u32").as_unsigned(), 4'000'000'000u);
  EXPECT_EQ(file.at("t.i32").as_number(), -2e9);
  EXPECT_EQ(file.at("t.u64").as_unsigned(), uint64_t{1} << 63);
  EXPECT_EQ(file.at("t.u64").as_number(), 9223372036854775808.0);
  EXPECT_EQ(file.at("t.i64").as_signed(), -(int64_t{1} << 62));
  EXPECT_EQ(file.at("t.f32").as_number(), 0.5);
  EXPECT_EQ(file.at("t.f64").as_number(), 0.1);
  EXPECT_TRUE(file.at("t.yes").as_bool());
  EXPECT_EQ(file.at("t.text").as_text(), "hä\nx");
  EXPECT_EQ(file.at("t.texts").texts(), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(file.at("t.ints").numbers(), (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(file.at("t.floats").numbers(), (std::vector<double>{0.25, -1.5}));
  const std::vector<GgufValue> nested = file.at("t.nested").elements();
  ASSERT_EQ(nested.size(), 2u);
  EXPECT_EQ(nested[0].numbers(), (std::vector<double>{1, 2}));
  EXPECT_EQ(nested[1].numbers(), (std::vector<double>{3}));
  EXPECT_EQ(file.find_tensor("w.f32")->shape, (Shape{2, 3}));
  EXPECT_EQ(file.find_tensor("w.f16")->shape, (Shape{4, 1}));
  EXPECT_EQ(file.find_tensor("w.q8_0")->shape, (Shape{3, 64}));
  EXPECT_EQ(file.find_tensor("none"), nullptr);
  for (const GgufTensor& tensor : file.tensors())
    EXPECT_EQ(tensor.dequantised(), floats_of_hex(recorded()["small"]["values"][tensor.name])) << tensor.name;
}

TEST(Gguf, ValuesOfAnotherTypeAreRefused) {
  const Gguf file = small_file();
  EXPECT_THROW(file.at("t.i8").as_unsigned(), ValueError);
  EXPECT_THROW(file.at("t.u64").as_signed(), ValueError);
  EXPECT_THROW(file.at("t.f32").as_unsigned(), ValueError);
  EXPECT_THROW(file.at("t.text").as_number(), ValueError);
  EXPECT_THROW(file.at("t.u8").as_text(), ValueError);
  EXPECT_THROW(file.at("t.u8").as_bool(), ValueError);
  EXPECT_THROW(file.at("t.u8").elements(), ValueError);
  EXPECT_THROW(file.at("t.ints").texts(), ValueError);
  EXPECT_THROW(file.at("t.texts").numbers(), ValueError);
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { file.at("none"); }), "small: the metadata has no 'none'"));
}

// What was read and is written again is the same file, byte for byte: the package's own layout.
TEST(Gguf, WritesWhatThePackageWrites) {
  const Gguf file = small_file();
  std::vector<std::string> keys;  // in the order of the file
  for (const auto& [key, value] : file.metadata()) keys.push_back(key);
  std::sort(keys.begin(), keys.end(), [&](const std::string& a, const std::string& b) {
    return file.at(a).raw().data() < file.at(b).raw().data();
  });
  GgufWriter out;
  for (const std::string& key : keys) out.add(key, file.at(key));
  for (const GgufTensor& tensor : file.tensors()) out.add_tensor(tensor.name, tensor.type, tensor.shape, tensor.bytes);
  EXPECT_EQ(out.bytes(), test::bytes_of_hex(recorded()["small"]["file"]));
}

class GgufFile : public testing::Test {
 protected:
  std::string error_of(const std::vector<uint8_t>& bytes) {
    test::write_bytes(path, bytes);
    const std::string text = test::thrown_text<IoError>([&] { Gguf::read(path); });
    EXPECT_EQ(test::thrown_text<IoError>([&] { Gguf::map(path); }), text);
    EXPECT_TRUE(contains(text, "[gguf] " + path));
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  // With a number in the place of another.
  template <class T>
  std::string error_with(size_t at, T value) {
    std::vector<uint8_t> bad = two();
    std::memcpy(bad.data() + at, &value, sizeof value);
    return error_of(bad);
  }
  // Byte 24: key "k", a u32; 41: tensor "a", its dimensions at 54 and 62, type 70, offset 74; 82: "b": 95, 103, 107.
  std::vector<uint8_t> two() const {
    GgufWriter out;
    out.add("k", uint32_t{7});
    out.add_tensor("a", GgmlType::q8_0, {3, 32}, blocks);
    out.add_tensor("b", GgmlType::f32, {2}, std::span(blocks).first(8));
    return out.bytes();
  }

  test::TemporaryFolder folder;
  const std::string path = folder / "net.gguf";
  const std::vector<uint8_t> blocks = std::vector<uint8_t>(3 * 34, 1);
};

TEST_F(GgufFile, ComesBackAsItWas) {
  GgufWriter out;
  out.add("general.alignment", uint32_t{64});
  out.add("text", "ä");
  out.add("yes", true);
  out.add("u64", uint64_t{5});
  out.add("i64", int64_t{-5});
  out.add("i32", int32_t{-6});
  out.add("f32", 0.5f);
  out.add("f64", 0.25);
  out.add("texts", std::span<const std::string>(std::vector<std::string>{"x", "yz"}));
  out.add("ints", std::span<const int32_t>(std::vector<int32_t>{1, -1}));
  out.add("floats", std::span<const float>(std::vector<float>{1.5f}));
  out.add_tensor("a", GgmlType::q8_0, {3, 32}, blocks);
  out.add_tensor("none", GgmlType::f16, {0, 5}, {});
  out.add_tensor("one", GgmlType::f32, {}, std::span(blocks).first(4));
  out.write(path);
  for (const bool mapped : {false, true}) {
    const Gguf file = mapped ? Gguf::map(path) : Gguf::read(path);
    EXPECT_EQ(file.alignment(), 64u);
    EXPECT_EQ(file.at("text").as_text(), "ä");
    EXPECT_TRUE(file.at("yes").as_bool());
    EXPECT_EQ(file.at("i64").as_signed(), -5);
    EXPECT_EQ(file.at("texts").texts(), (std::vector<std::string_view>{"x", "yz"}));
    EXPECT_EQ(file.at("ints").numbers(), (std::vector<double>{1, -1}));
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_EQ(file.tensors()[0].shape, (Shape{3, 32}));
    EXPECT_TRUE(std::equal(blocks.begin(), blocks.end(), file.tensors()[0].bytes.begin()));
    EXPECT_EQ(file.tensors()[1].shape, (Shape{0, 5}));
    EXPECT_EQ(file.tensors()[2].shape, Shape());
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"net.gguf"});
}

TEST_F(GgufFile, EachLengthButTheWholeIsTruncated) {
  const std::vector<uint8_t> good = two();
  Gguf::of(FileBytes::of(good), "m");
  // What pads the last tensor to the alignment may be missing.
  for (size_t length = 0; length < good.size() - 24; ++length) {
    EXPECT_THROW(Gguf::of(FileBytes::of({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}), "m"),
                 IoError)
        << length;
  }
  std::vector<uint8_t> longer = good;
  longer.resize(good.size() + 40);
  EXPECT_TRUE(contains(error_of(longer), "bytes after the last tensor belong to nothing"));
}

TEST_F(GgufFile, HeadsThatLie) {
  constexpr uint64_t huge = uint64_t{1} << 60;
  EXPECT_TRUE(contains(error_of({}), "not a GGUF file"));
  EXPECT_TRUE(contains(error_with(0, 'X'), "not a GGUF file"));
  EXPECT_TRUE(contains(error_with(4, uint32_t{1}), "its version is 1"));
  EXPECT_TRUE(contains(error_with(4, uint32_t{4}), "its version is 4"));
  EXPECT_TRUE(contains(error_with(4, uint32_t{3} << 24), "big-endian"));
  EXPECT_TRUE(contains(error_with(8, huge), "at most 65536"));
  EXPECT_TRUE(contains(error_with(16, huge), "at most 65536"));
  EXPECT_TRUE(contains(error_with(8, uint64_t{60000}), "do not fit"));
  EXPECT_TRUE(contains(error_with(24, huge), "1 to 1024 are allowed"));
  EXPECT_TRUE(contains(error_with(24, uint64_t{0}), "1 to 1024 are allowed"));
  EXPECT_TRUE(contains(error_with(32, '\n'), "printable ASCII"));
  EXPECT_TRUE(contains(error_with(33, uint32_t{13}), "of type 13, which is none"));
  EXPECT_TRUE(contains(error_with(33, uint32_t{7}), "'k' is a bool of 7"));
}

TEST_F(GgufFile, TensorsThatLie) {
  constexpr uint64_t huge = uint64_t{1} << 60;
  EXPECT_TRUE(contains(error_with(49, 'b'), "the tensor 'b' is there twice"));
  EXPECT_TRUE(contains(error_with(50, uint32_t{5}), "5 dimensions, at most 4"));
  EXPECT_TRUE(contains(error_with(54, uint64_t{33}), "rows of 33 elements are no whole blocks of Q8_0"));
  EXPECT_TRUE(contains(error_with(54, huge), "lie outside"));
  EXPECT_TRUE(contains(error_with(54, ~uint64_t{0}), "dimensions overflow"));
  EXPECT_TRUE(contains(error_with(62, huge), "dimensions overflow"));
  EXPECT_TRUE(contains(error_with(70, uint32_t{11}), "types that are not read: Q3_K (1); F32, F16, Q4_0"));
  EXPECT_TRUE(contains(error_with(70, uint32_t{99}), "types that are not read: type 99 (1)"));
  EXPECT_TRUE(contains(error_with(107, huge), "lie outside"));
  EXPECT_TRUE(contains(error_with(107, ~uint64_t{31}), "lie outside"));
  EXPECT_TRUE(contains(error_with(74, uint64_t{32}), "belong to no tensor"));
  EXPECT_TRUE(contains(error_with(107, uint64_t{64}), "overlaps another one"));
  EXPECT_TRUE(contains(error_with(107, uint64_t{130}), "no multiple of 32"));
}

// A file of no tensors whose one key holds an array: u32 and u64 in turn, as arrays have their types and counts.
std::vector<uint8_t> array_file(const std::vector<uint64_t>& numbers) {
  std::vector<uint8_t> file = {'G', 'G', 'U', 'F', 3, 0, 0, 0};
  file.resize(24);
  file[16] = 1;
  const auto put = [&](uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) file.push_back(static_cast<uint8_t>(value >> (8 * i)));
  };
  put(1, 8);
  put('k', 1);
  put(9, 4);
  for (size_t i = 0; i < numbers.size(); ++i) put(numbers[i], i % 2 == 0 ? 4 : 8);
  file.resize(file.size() + 64);
  return file;
}

TEST_F(GgufFile, ArraysThatLie) {
  constexpr uint64_t huge = uint64_t{1} << 60;
  constexpr uint64_t boolean = 7, text = 8, array = 9;
  EXPECT_TRUE(contains(error_of(array_file({4, huge})), "do not fit"));
  EXPECT_TRUE(contains(error_of(array_file({text, huge})), "do not fit"));
  EXPECT_TRUE(contains(error_of(array_file({array, huge})), "do not fit"));
  EXPECT_TRUE(contains(error_of(array_file({text, 1, 200})), "truncated: 200 bytes"));
  EXPECT_TRUE(contains(error_of(array_file({boolean, 1, 2})), "is a bool of 2"));
  EXPECT_TRUE(contains(error_of(array_file({13, 1})), "of type 13, which is none"));
  std::vector<uint64_t> deep;
  for (int i = 0; i < Gguf::max_array_depth; ++i) deep.insert(deep.end(), {array, 1});
  EXPECT_TRUE(contains(error_of(array_file(deep)), "more than 8 deep"));
  std::vector<uint8_t> many = array_file({array, 70'000});
  many.resize(many.size() + 12 * 70'000);
  EXPECT_TRUE(contains(error_of(many), "arrays within arrays, more than 65536"));
}

TEST_F(GgufFile, WhatNoFileMayHoldIsNotWritten) {
  GgufWriter out;
  out.add("a", true);
  EXPECT_THROW(out.add("a", true), ValueError);
  EXPECT_THROW(out.add("", true), ValueError);
  EXPECT_THROW(out.add("\n", true), ValueError);
  EXPECT_THROW(out.add("general.alignment", uint32_t{12}), ValueError);
  EXPECT_THROW(out.add_tensor("t", GgmlType::q8_0, {3, 16}, blocks), ValueError);
  EXPECT_THROW(out.add_tensor("t", GgmlType::q8_0, {2, 32}, blocks), ValueError);
  EXPECT_THROW(out.add_tensor("t", GgmlType::nf4, {3, 64}, blocks), ValueError);  // 3 * 34 bytes, as these are
  EXPECT_THROW(out.add_tensor("t", GgmlType::f32, {1, 1, 1, 1, 1}, std::span(blocks).first(4)), ValueError);
  out.add_tensor("t", GgmlType::q8_0, {3, 32}, blocks);
  EXPECT_THROW(out.add_tensor("t", GgmlType::q8_0, {3, 32}, blocks), ValueError);
}

}  // namespace
}  // namespace heddle
