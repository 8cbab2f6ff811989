// safetensors: round trips of every dtype, and files that lie.
#include "heddle/io/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/philox.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;

DeviceContext& host() { return device("reference:0"); }

std::vector<uint8_t> file_of(const std::string& header, const std::vector<uint8_t>& data) {
  std::string text;
  for (int shift = 0; shift < 64; shift += 8) text.push_back(static_cast<char>(uint64_t{header.size()} >> shift));
  text += header;
  text.append(data.begin(), data.end());
  return {text.begin(), text.end()};
}

class Safetensors : public testing::Test {
 protected:
  std::string error_of(const std::vector<uint8_t>& bytes) {
    const std::string bad = folder / "bad.safetensors";
    test::write_bytes(bad, bytes);
    const std::string text = test::thrown_text<IoError>([&] { load_safetensors(bad, &host()); });
    EXPECT_TRUE(contains(text, bad));
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  std::string error_of(const std::string& header, size_t data_bytes) {
    return error_of(file_of(header, std::vector<uint8_t>(data_bytes)));
  }

  test::TemporaryFolder folder;
  const std::string path = folder / "file.safetensors";
};

TEST_F(Safetensors, EveryDTypeComesBackBitForBit) {
  TensorMap tensors;
  for (int t = 0; t < dtype_count; ++t) {
    const DType dtype = static_cast<DType>(t);
    std::vector<uint8_t> bytes(7 * size_of(dtype));
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>(dtype == DType::boolean ? i % 2 : i * 37 + 11);
    tensors.emplace(std::string("tensor/") + std::string(name_of(dtype)),
                    Tensor::from_bytes(bytes.data(), 7, dtype, {7, 1}, &host()));
  }
  tensors.emplace("empty", zeros({0, 3}, DType::f32, &host()));
  tensors.emplace("scalar", full({}, -2.5, DType::f64, &host()));
  save_safetensors(path, tensors, {{"format", "heddle"}, {"na\"me", "ü\n"}});
  const SafetensorsFile back = load_safetensors(path, &host());
  EXPECT_EQ(back.metadata, (Metadata{{"format", "heddle"}, {"na\"me", "ü\n"}}));
  ASSERT_EQ(back.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor& other = back.tensors.at(name);
    EXPECT_EQ(other.shape(), tensor.shape()) << name;
    EXPECT_EQ(other.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(other.to_bytes(), tensor.to_bytes()) << name;
    EXPECT_EQ(other.device().id(), "reference:0");
  }
}

TEST_F(Safetensors, ViewsAreStoredRowMajor) {
  const Tensor x = Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3}, &host());
  save_safetensors(path, {{"t", transpose(x)}});
  EXPECT_EQ(load_safetensors(path, &host()).tensors.at("t").to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST_F(Safetensors, LayoutIsTheFormats) {
  save_safetensors(path, {{"b", full({3}, 1, DType::u8, &host())}, {"a", full({2}, 1, DType::f32, &host())}});
  const std::vector<uint8_t> bytes = test::read_bytes(path);
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | bytes[i];
  EXPECT_EQ(length % 8, 0u);
  const Json header = Json::parse(bytes.begin() + 8, bytes.begin() + 8 + static_cast<std::ptrdiff_t>(length));
  EXPECT_EQ(header["a"], (Json{{"dtype", "F32"}, {"shape", {2}}, {"data_offsets", {0, 8}}}));
  EXPECT_EQ(header["b"], (Json{{"dtype", "U8"}, {"shape", {3}}, {"data_offsets", {8, 11}}}));
  EXPECT_EQ(bytes.size(), 8 + length + 11);
}

TEST_F(Safetensors, ReadsWhatOthersWrite) {  // unordered names, spaces at the end, no metadata
  std::vector<uint8_t> data = {0, 0, 0x80, 0x3f, 5, 0, 0, 0};
  test::write_bytes(
      path,
      file_of(
          R"({"z":{"shape":[1],"data_offsets":[4,8],"dtype":"I32"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
          data));
  const SafetensorsFile file = load_safetensors(path, &host());
  EXPECT_EQ(file.tensors.at("a").item(), 1.0);
  EXPECT_EQ(file.tensors.at("z").item(), 5.0);
  EXPECT_TRUE(file.metadata.empty());
}

TEST_F(Safetensors, EmptyFileOfNoTensors) {
  save_safetensors(path, {});
  EXPECT_TRUE(load_safetensors(path, &host()).tensors.empty());
}

TEST_F(Safetensors, ForeignBoolBytesBecomeOne) {
  test::write_bytes(path, file_of(R"({"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", {0, 1, 7}));
  EXPECT_EQ(load_safetensors(path, &host()).tensors.at("b").to_bytes(), (std::vector<uint8_t>{0, 1, 1}));
}

TEST_F(Safetensors, BadHeaders) {
  EXPECT_TRUE(
      contains(test::thrown_text<IoError>([&] { load_safetensors(folder / "none", &host()); }), "no such file"));
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { load_safetensors(folder.path(), &host()); }),
                       "is a folder, expected a file"));
  EXPECT_TRUE(contains(error_of(std::vector<uint8_t>{}), "truncated"));
  EXPECT_TRUE(contains(error_of({1, 2, 3}), "truncated"));
  EXPECT_TRUE(contains(error_of({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'}), "at most 100000000"));
  EXPECT_TRUE(contains(error_of({200, 0, 0, 0, 0, 0, 0, 0, '{', '}'}),
                       "truncated: the header's length is 200 bytes, 2 are there"));
  EXPECT_TRUE(contains(error_of("", 0), "not a safetensors file"));
  EXPECT_TRUE(contains(error_of("[1]", 0), "does not begin with '{'"));
  EXPECT_TRUE(contains(error_of("{\"a\":", 0), "not JSON"));
  EXPECT_TRUE(contains(error_of("{\"a\xff\":1}", 0), "not JSON"));
  EXPECT_TRUE(contains(error_of(R"({"__metadata__":[]})", 0), "not an object"));
  EXPECT_TRUE(contains(error_of(R"({"__metadata__":{"a":1}})", 0), "not a string"));
}

// The parser does not recurse, but the messages printed what they refused, and that did.
TEST_F(Safetensors, DeepHeadersAreRefused) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::map<std::string, std::string> entry = {{"dtype", "\"F32\""}, {"shape", "[1]"}, {"data_offsets", "[0,4]"}};
  for (const auto& [key, value] : entry) {
    std::string header;
    for (const auto& [name, good] : entry)
      header += (header.empty() ? "\"" : ",\"") + name + "\":" + (name == key ? deep : good);
    EXPECT_TRUE(contains(error_of("{\"a\":{" + header + "}}", 4), "brackets are more than 100 deep")) << key;
  }
  const std::string level = std::string(98, '[') + std::string(98, ']'),
                    rest = R"(,"shape":[1],"data_offsets":[0,4]}})";
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":)" + level + rest, 4), "unknown dtype [[[["));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":[)" + level + "]" + rest, 4), "brackets are more than 100 deep"));
  EXPECT_LT(error_of(R"({"a":{"dtype":")" + std::string(1 << 20, 'x') + "\"" + rest, 4).size(), 500u)
      << "a message is short";
}

TEST_F(Safetensors, BadEntries) {
  const std::string good = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_TRUE(contains(error_of("{\"a\":" + good + ",\"a\":" + good + "}", 4), "'a' appears twice"));
  EXPECT_TRUE(contains(error_of(R"({"a":7})", 0), "needs dtype, shape and data_offsets"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1),
                       "unknown dtype \"F8_E4M3\""));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":3,"shape":[1],"data_offsets":[0,4]}})", 4), "unknown dtype 3"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F32","shape":"x","data_offsets":[0,4]}})", 4), "not a list"));
  EXPECT_TRUE(
      contains(error_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "impossible dimension -1"));
  EXPECT_TRUE(
      contains(error_of(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4), "impossible dimension 1.5"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4),
                       "overflows"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,4]}})", 4),
                       "its offsets give 4"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4),
                       "9 dimensions"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
                       "needs 8 bytes, its offsets give 4"));
}

TEST_F(Safetensors, BadOffsets) {
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4),
                       "expected two non-negative numbers"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4),
                       "expected two non-negative numbers"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "lie outside"));
  EXPECT_TRUE(
      contains(error_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4), "lie outside the 4 bytes"));
  EXPECT_TRUE(contains(
      error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551616]}})", 4),
      "data_offsets"));
  EXPECT_TRUE(contains(
      error_of(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
          6),
      "overlaps"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
                       "bytes 0 to 4 belong to no tensor"));
  EXPECT_TRUE(contains(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 9),
                       "5 bytes after the last tensor"));
}

// Random damage to a good file: either an IoError or tensors of the promised sizes, never anything else.
TEST_F(Safetensors, DamagedFilesNeverCrash) {
  save_safetensors(path,
                   {{"weight", full({3, 5}, 1, DType::f32, &host())}, {"mask", full({4}, 1, DType::boolean, &host())}},
                   {{"k", "v"}});
  const std::vector<uint8_t> good = test::read_bytes(path);
  int refused = 0;
  for (uint32_t round = 0; round < 1500; ++round) {
    std::vector<uint8_t> bad = good;
    const auto words = philox({round, 0, 0, 0}, {1, 2});
    if (round % 3 == 0) bad.resize(words[2] % good.size());
    for (uint32_t i = 0; i < 1 + words[3] % 3 && !bad.empty(); ++i) {
      const auto more = philox({round, i, 1, 0}, {1, 2});
      bad[more[0] % bad.size()] = static_cast<uint8_t>(more[1]);
    }
    test::write_bytes(folder / "damaged", bad);
    try {
      for (const auto& [name, tensor] : load_safetensors(folder / "damaged", &host()).tensors) {
        EXPECT_EQ(tensor.to_bytes().size(), static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype()));
      }
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 700);
}

TEST_F(Safetensors, SavingRefusesWhatCannotBeStored) {
  EXPECT_THROW(save_safetensors(path, {{"__metadata__", zeros({1}, DType::f32, &host())}}), ValueError);
  EXPECT_THROW(save_safetensors(path, {{"t", Tensor()}}), ValueError);
  EXPECT_THROW(save_safetensors(path, {{"\xff", zeros({1}, DType::f32, &host())}}), ValueError);
  EXPECT_TRUE(folder.names().empty());
}

TEST_F(Safetensors, SavingReplacesWholeOrNotAtAll) {
  save_safetensors(path, {{"t", full({1}, 1, DType::f32, &host())}});
  save_safetensors(path, {{"t", full({1}, 2, DType::f32, &host())}});
  EXPECT_EQ(load_safetensors(path, &host()).tensors.at("t").item(), 2.0);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file.safetensors"});
  EXPECT_THROW(save_safetensors(folder / "no/such/folder", {}), IoError);
  std::filesystem::create_directory(folder / "taken");
  EXPECT_THROW(save_safetensors(folder / "taken", {}), IoError);  // the rename fails; the temporary file is removed
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"file.safetensors", "taken"}));
}

TEST_F(Safetensors, BytesInMemoryAreThoseOfAFile) {
  const std::vector<uint8_t> codes = {1, 2, 3}, floats = {0, 0, 128, 63, 0, 0, 0, 64};
  const TensorBytesMap tensors = {{"codes", {DType::u8, Shape{3}, codes}}, {"x", {DType::f32, Shape{2}, floats}}};
  write_safetensors(path, tensors, {{"step", "7"}});
  const std::vector<uint8_t> bytes = safetensors_bytes(tensors, {{"step", "7"}});
  EXPECT_EQ(bytes, test::read_bytes(path));
  const SafetensorsBytes parsed = parse_safetensors(bytes, "the message");
  EXPECT_EQ(parsed.metadata.at("step"), "7");
  EXPECT_EQ(parsed.tensors.at("x").shape, Shape{2});
  EXPECT_TRUE(std::ranges::equal(parsed.tensors.at("x").bytes, floats));
  const std::string error = test::thrown_text<IoError>([&] {
    parse_safetensors({bytes.begin(), bytes.end() - 1}, "the message");
  });
  EXPECT_TRUE(contains(error, "the message")) << error;
}

TEST(AtomicFile, WritableFolder) {
  test::TemporaryFolder folder;
  require_writable_folder(folder / "a/b");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "a/b"));
  write_file_atomically(folder / "text", "hello");
  EXPECT_EQ(test::read_bytes(folder / "text"), (std::vector<uint8_t>{'h', 'e', 'l', 'l', 'o'}));
  EXPECT_TRUE(
      contains(test::thrown_text<IoError>([&] { require_writable_folder(folder / "text"); }), "is not a folder"));
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { require_writable_folder(folder / "text/below"); }),
                       "cannot create the folder"));
  EXPECT_THROW(require_writable_folder("/proc/heddle"), IoError);
}

}  // namespace
}  // namespace heddle
