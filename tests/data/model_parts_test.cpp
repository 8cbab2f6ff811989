// `.heddle` files: round trips, files that lie, files that were damaged.
#include "heddle/io/model_parts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#ifndef _WIN32
#include <sys/stat.h>
#endif

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/io/model_upgrade.h"
#include "heddle/io/write_model_parts.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using OrderedJson = nlohmann::ordered_json;
using test::contains;

// The layout, written down a second time: a file of any header and any bytes behind it, whose checksum fits.
std::vector<uint8_t> parts_file(std::string header, const std::string& data, uint32_t version = 1) {
  header.resize((header.size() + 63) / 64 * 64, ' ');
  std::string file = "HDLPARTS";
  for (int i = 0; i < 4; ++i) file.push_back(static_cast<char>(version >> (8 * i)));
  file.append(4, '\0');
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(uint64_t{header.size()} >> (8 * i)));
  file.append(8, '\0');
  const Sha256Digest digest = sha256(header);
  file.append(digest.begin(), digest.end());
  file += header + data;
  return {file.begin(), file.end()};
}

OrderedJson part_of(const std::string& name, uint64_t offset, const std::string& content) {
  return {{"name", name},
          {"kind", "graph"},
          {"offset", offset},
          {"bytes", content.size()},
          {"sha256", hex_of(sha256(content))}};
}
std::string header_of(const OrderedJson& parts) {
  return OrderedJson{{"metadata", OrderedJson::object()}, {"parts", parts}}.dump();
}

class ModelPartsTest : public testing::Test {
 protected:
  std::string error_of(const std::vector<uint8_t>& bytes) {
    test::write_bytes(path, bytes);
    const std::string text = test::thrown_text<IoError>([&] { ModelParts::read(path); });
    EXPECT_EQ(test::thrown_text<IoError>([&] { ModelParts::map(path); }), text);
    EXPECT_TRUE(contains(text, "[model_parts] " + path));
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }
  std::string error_of(const OrderedJson& part, const std::string& data) {
    return error_of(parts_file(header_of(OrderedJson::array({part})), data));
  }

  test::TemporaryFolder folder;
  const std::string path = folder / "net.heddle";
  const std::vector<uint8_t> weights = std::vector<uint8_t>(1000, 0x5a);
  const std::vector<ModelPart> parts = {
      {.name = "graph", .kind = PartKind::graph, .bytes = bytes_of("{}")},
      {.name = "w/ä", .kind = PartKind::weights, .bytes = weights, .attributes = {{"dtype", "q4_0"}}},
      {.name = "nothing", .kind = PartKind::golden},
      {.name = "v1", .kind = PartKind::image, .bytes = bytes_of("code"), .target = "vulkan", .bucket = "N=1"},
      {.name = "v8", .kind = PartKind::image, .bytes = bytes_of("more"), .target = "vulkan", .bucket = "N=8"}};
};

TEST_F(ModelPartsTest, ComeBackAsTheyWere) {
  write_model_parts(path, parts, {{"model", "net"}});
  for (const bool mapped : {false, true}) {
    const ModelParts file = mapped ? ModelParts::map(path) : ModelParts::read(path);
    EXPECT_EQ(file.metadata(), (PartAttributes{{"model", "net"}}));
    ASSERT_EQ(file.entries().size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const PartEntry& entry = file.entries()[i];
      EXPECT_EQ(entry.name, parts[i].name);
      EXPECT_EQ(entry.kind, parts[i].kind);
      EXPECT_EQ(entry.target, parts[i].target);
      EXPECT_EQ(entry.bucket, parts[i].bucket);
      EXPECT_EQ(entry.attributes, parts[i].attributes);
      EXPECT_EQ(entry.offset % 64, 0u);
      const std::span<const uint8_t> bytes = file.bytes(entry);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), parts[i].bytes.begin(), parts[i].bytes.end())) << entry.name;
      EXPECT_EQ(file.find(entry.name), &entry);
    }
    file.verify();
    EXPECT_EQ(file.find("none"), nullptr);
    EXPECT_EQ(file.find_image("vulkan", "N=8")->name, "v8");
    EXPECT_EQ(file.find_image("opencl", "N=8"), nullptr);
    EXPECT_EQ(file.text(file.only(PartKind::graph)), "{}");
    EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { file.only(PartKind::image); }), "2 parts of kind 'image'"));
    EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { file.only(PartKind::labels); }), "0 parts of kind 'labels'"));
  }
}

TEST_F(ModelPartsTest, TheLayoutIsTheOneThatIsWrittenDown) {
  const OrderedJson first = part_of("a", 0, "hello"), second = part_of("b", 64, "you");
  const std::vector<uint8_t> expected = parts_file(header_of({first, second}), "hello" + std::string(59, '\0') + "you");
  const std::vector<ModelPart> two = {{.name = "a", .bytes = bytes_of("hello")},
                                      {.name = "b", .bytes = bytes_of("you")}};
  EXPECT_EQ(model_parts_bytes(two), expected);
  write_model_parts(path, two);
  EXPECT_EQ(test::read_bytes(path), expected);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"net.heddle"});  // nothing unfinished stays
}

TEST_F(ModelPartsTest, NoPartsIsAFile) {
  write_model_parts(path, {});
  EXPECT_TRUE(ModelParts::read(path).entries().empty());
}

TEST_F(ModelPartsTest, IdentityIsThatOfTheContent) {
  const auto identity = [&](const std::vector<ModelPart>& some) {
    return ModelParts::of(FileBytes::of(model_parts_bytes(some)), "memory").identity();
  };
  std::vector<ModelPart> other = parts;
  EXPECT_EQ(identity(parts), identity(other));
  other[0].bytes = bytes_of("[]");
  EXPECT_NE(identity(parts), identity(other));
}

TEST_F(ModelPartsTest, AMovedFileKeepsItsBytes) {
  write_model_parts(path, parts);
  ModelParts file = ModelParts::map(path);
  const std::string_view before = file.text(file.entries()[0]);
  ModelParts other = std::move(file);
  EXPECT_EQ(other.text(other.entries()[0]).data(), before.data());
  other = ModelParts::read(path);
  EXPECT_EQ(other.text(other.entries()[0]), "{}");
}

// Every byte counts: whichever is changed, the file is refused, or, of mapped weights, verify() refuses it.
TEST_F(ModelPartsTest, EachDamagedByteIsFound) {
  const std::vector<uint8_t> good = model_parts_bytes(parts, {{"model", "net"}});
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<uint8_t> bad = good;
    bad[at] ^= 0x10;
    EXPECT_THROW(ModelParts::of(FileBytes::of(bad), "memory"), IoError) << at;
  }
  write_model_parts(path, parts);
  std::vector<uint8_t> bad = test::read_bytes(path);
  const PartEntry entry = ModelParts::read(path).entries()[1];
  bad[entry.offset + 500] ^= 1;
  test::write_bytes(path, bad);
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { ModelParts::read(path); }), "part 'w/ä' is damaged"));
  const ModelParts mapped = ModelParts::map(path);
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { mapped.verify(); }), "part 'w/ä' is damaged"));
  mapped.verify(mapped.entries()[0]);
  bad[mapped.entries()[0].offset] ^= 1;
  test::write_bytes(folder / "graph.heddle", bad);
  EXPECT_THROW(ModelParts::map(folder / "graph.heddle"), IoError);
}

TEST_F(ModelPartsTest, EachLengthButTheWholeIsTruncated) {
  const std::vector<uint8_t> good = model_parts_bytes(parts);
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(ModelParts::of(FileBytes::of({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}), "m"),
                 IoError)
        << length;
  }
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  EXPECT_TRUE(contains(error_of(longer), "1 bytes after the last part belong to nothing"));
}

TEST_F(ModelPartsTest, HeadersThatLie) {
  const OrderedJson good = part_of("a", 0, "hello");
  const auto with = [&](const char* key, const OrderedJson& value) {
    OrderedJson part = good;
    part[key] = value;
    return error_of(part, "hello");
  };
  const uint64_t huge = uint64_t{1} << 60;
  EXPECT_TRUE(contains(with("bytes", huge), "lie outside the 5 bytes"));
  EXPECT_TRUE(contains(with("offset", huge), "lie outside the 5 bytes"));
  EXPECT_TRUE(contains(with("offset", ~uint64_t{0}), "lie outside the 5 bytes"));
  EXPECT_TRUE(contains(with("bytes", -1), "expected a whole number"));
  EXPECT_TRUE(contains(with("bytes", 5.0), "expected a whole number"));
  EXPECT_TRUE(contains(with("kind", "program"), "of kind 'program', which is none"));
  EXPECT_TRUE(contains(with("kind", 3), "expected a text"));
  EXPECT_TRUE(contains(with("kind", "image"), "needs a target"));
  EXPECT_TRUE(contains(with("target", "vulkan"), "is no image"));
  EXPECT_TRUE(contains(with("sha256", "00"), "64 lower-case digits"));
  EXPECT_TRUE(contains(with("sha256", std::string(64, '0')), "part 'a' is damaged"));
  EXPECT_TRUE(contains(with("name", ""), "a name of 1 to 255 bytes"));
  EXPECT_TRUE(contains(with("name", std::string(300, 'x')), "a name of 1 to 255 bytes"));
  EXPECT_TRUE(contains(with("name", "a\nb"), "control character"));
  EXPECT_TRUE(contains(with("attributes", OrderedJson::array()), "no object of texts"));
  EXPECT_TRUE(contains(with("attributes", {{"a", 1}}), "expected a text"));
  EXPECT_TRUE(contains(with("compression", "zip"), "has 'compression', which format version 1 does not know"));
  EXPECT_TRUE(contains(error_of(OrderedJson{{"name", "a"}}, ""), "part 'a' has no 'kind'"));
  EXPECT_TRUE(contains(error_of(OrderedJson(1), ""), "part 0 is no object"));
}

TEST_F(ModelPartsTest, PartsThatDoNotFitEachOther) {
  const std::string data = "hello" + std::string(59, '\0') + "you";
  const auto two = [&](const OrderedJson& a, const OrderedJson& b, const std::string& bytes) {
    return error_of(parts_file(header_of({a, b}), bytes));
  };
  const OrderedJson a = part_of("a", 0, "hello");
  EXPECT_TRUE(contains(two(a, part_of("a", 64, "you"), data), "part 'a' is there twice"));
  EXPECT_TRUE(contains(two(a, part_of("b", 0, "hello"), data), "overlaps"));
  EXPECT_TRUE(contains(two(a, part_of("b", 66, "u"), data), "no multiple of 64"));
  EXPECT_TRUE(contains(two(a, part_of("b", 128, "x"), data + std::string(61, '\0') + "x"), "belong to no part"));
  EXPECT_TRUE(contains(two(a, part_of("b", 64, "you"), "hello!" + data.substr(6)), "belong to no part"));
  EXPECT_TRUE(contains(two(part_of("b", 64, "you"), a, data), "belong to no part"));
}

TEST_F(ModelPartsTest, HeadersThatAreNone) {
  EXPECT_TRUE(contains(error_of(std::vector<uint8_t>{}), "not a .heddle file"));
  EXPECT_TRUE(contains(error_of(parts_file("[]", "")), "the header is no object"));
  EXPECT_TRUE(contains(error_of(parts_file("{\"a\":", "")), "not JSON"));
  EXPECT_TRUE(contains(error_of(parts_file("{\"parts\":[],\"parts\":[]}", "")), "'parts' appears twice"));
  EXPECT_TRUE(contains(error_of(parts_file("{\"parts\":[]}", "")), "has no 'metadata'"));
  EXPECT_TRUE(contains(error_of(parts_file("{\"metadata\":{},\"parts\":{}}", "")), "no list of at most"));
  EXPECT_TRUE(contains(error_of(parts_file(std::string(100'000, '['), "")), "more than 100 deep"));
  std::vector<uint8_t> long_header = parts_file(header_of(OrderedJson::array()), "");
  long_header[22] = 0xff;  // 2^53
  EXPECT_TRUE(contains(error_of(long_header), "at most 4194304 are allowed"));
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { ModelParts::read(folder / "none"); }), "no such file"));
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { ModelParts::map(folder.path()); }), "is a folder"));
#ifndef _WIN32
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { ModelParts::read(fifo); }), "no regular file"));
#endif
}

TEST_F(ModelPartsTest, OtherVersions) {
  const std::string header = header_of(OrderedJson::array());
  EXPECT_TRUE(contains(error_of(parts_file(header, "", 2)), "format version is 2, this Heddle reads versions up to 1"));
  EXPECT_TRUE(contains(error_of(parts_file(header, "", 0)), "there is no format version 0"));
}

TEST_F(ModelPartsTest, OldHeadersAreUpgradedOneVersionAtATime) {
  const HeaderUpgrade table[] = {{2, [](std::string_view h) { return std::string(h) + "c"; }},
                                 {1, [](std::string_view h) { return std::string(h) + "b"; }}};
  EXPECT_EQ(upgraded_header("a", 3, 3, table, "x"), "a");
  EXPECT_EQ(upgraded_header("a", 2, 3, table, "x"), "ac");
  EXPECT_EQ(upgraded_header("a", 1, 3, table, "x"), "abc");
  EXPECT_THROW(upgraded_header("a", 0, 3, table, "x"), IoError);
  EXPECT_THROW(upgraded_header("a", 4, 3, table, "x"), IoError);
}

TEST_F(ModelPartsTest, WhatNoFileMayHoldIsNotWritten) {
  const auto refused = [&](const std::vector<ModelPart>& some, const PartAttributes& metadata = {}) {
    const std::string text = test::thrown_text<ValueError>([&] { write_model_parts(path, some, metadata); });
    EXPECT_TRUE(folder.names().empty());
    return text;
  };
  EXPECT_TRUE(contains(refused({{.name = "a"}, {.name = "a"}}), "part 'a' is there twice"));
  EXPECT_TRUE(contains(refused({{.name = ""}}), "a name of 1 to 255 bytes"));
  EXPECT_TRUE(contains(refused({{.name = "a", .kind = PartKind::image}}), "needs a target"));
  EXPECT_TRUE(contains(refused({{.name = "a", .target = "c"}}), "is no image"));
  EXPECT_TRUE(contains(refused({{.name = "\xff"}}), "not UTF-8"));
  EXPECT_TRUE(contains(refused({}, {{"a", "\xff"}}), "not UTF-8"));
  EXPECT_TRUE(
      contains(refused({{.name = "a", .attributes = {{"x", std::string(5'000'000, 'x')}}}}), "at most 4194304"));
}

}  // namespace
}  // namespace heddle
