// io/event_file.h and train/summaries.h: read back by TensorBoard itself where it is installed (HEDDLE_TEST_PYTHON,
// else python3).
#include "heddle/io/event_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <string_view>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/data/image_file.h"
#include "heddle/nn/nn.h"
#include "heddle/train/summaries.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tensorboard_reader.h"

namespace heddle {
namespace {

using Json = nlohmann::json;

class EventFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_tensorboard())
      GTEST_SKIP() << "no tensorboard package for " << test::python() << " (HEDDLE_TEST_PYTHON names another)";
  }
  test::TemporaryFolder folder;
};

TEST_F(EventFiles, ScalarsAndTexts) {
  {
    EventFile file(folder.path());
    file.scalar("loss/train", 1, 2.5);
    file.scalar("loss/train", int64_t{1} << 40, -0.125);
    file.scalar("learning rate", 3, 1e-4);
    file.text("config", 0, "[run]\nrecipe = \"grün\"");
    file.text("sample", 300, std::string(100000, 'x'));
  }
  const Json found = test::read_events(folder.path());
  EXPECT_EQ(found["scalars"]["loss/train"], Json::parse("[[1, 2.5], [1099511627776, -0.125]]"));
  EXPECT_EQ(found["scalars"]["learning rate"][0][1].get<float>(), 1e-4f);
  EXPECT_EQ(found["texts"]["config"], Json::parse(R"([[0, "text", ["[run]\nrecipe = \"grün\""]]])"));
  EXPECT_EQ(found["texts"]["sample"][0][2][0].get<std::string>().size(), 100000u);
}

TEST_F(EventFiles, Histograms) {
  {
    EventFile file(folder.path());
    file.histogram("w", 7, {.min = -1, .max = 3, .sum = 4, .sum_squares = 20, .counts = {1, 0, 5, 2}});
    file.histogram("equal", 7, {.min = 2, .max = 2, .sum = 6, .sum_squares = 12, .counts = {0, 3}});
  }
  const Json found = test::read_events(folder.path());
  EXPECT_EQ(found["histograms"]["w"], Json::parse("[[7, -1, 3, 8, 4, 20, [0, 1, 2, 3], [1, 0, 5, 2]]]"));
  EXPECT_EQ(found["histograms"]["equal"], Json::parse("[[7, 2, 2, 3, 6, 12, [2, 2.5], [0, 3]]]"));
}

#ifdef HEDDLE_HAS_PNG
TEST_F(EventFiles, ImagesAndGraphs) {
  const data::Array pixels = data::Array::of(std::vector<uint8_t>(30, 7), {3, 2, 5});
  const std::string path = folder / "image.png";
  data::write_png(path, pixels);
  const std::string png = test::read_text(path);
  nn::Sequential model{nn::Linear(4, 3), nn::ReLU()};
  const Tensor x = ones({2, 4});
  const Tensor loss = sum(model(x));
  {
    EventFile file(folder / "events");
    file.image("sample", 2, 2, 5, 3, png);
    file.graph(train::recorded_graph(loss, model.named_parameters()));
  }
  const Json found = test::read_events(folder / "events");
  ASSERT_EQ(found["images"]["sample"].size(), 1u);
  EXPECT_EQ(found["images"]["sample"][0][1], 2);
  EXPECT_EQ(found["images"]["sample"][0][2], 5);
  EXPECT_EQ(found["images"]["sample"][0][3].get<std::string>().size(), 2 * png.size());
  std::map<std::string, Json> vertices;
  for (const Json& vertex : found["graph"]) vertices[vertex[0]] = vertex;
  EXPECT_EQ(vertices.size(), found["graph"].size()) << "names are unique";
  ASSERT_TRUE(vertices.contains("0/weight")) << found["graph"];
  EXPECT_EQ(vertices["0/weight"][3], Json::parse("[3, 4]"));
  for (const auto& [name, vertex] : vertices) {
    EXPECT_EQ(name.find(':'), std::string::npos) << name;
    for (const Json& input : vertex[2]) EXPECT_TRUE(vertices.contains(input)) << input;
  }
}
#endif

TEST_F(EventFiles, AnUnfinishedRecordIsPassedOver) {
  std::string path;
  {
    EventFile file(folder.path());
    file.scalar("a", 1, 1);
    file.scalar("a", 2, 2);
    path = file.path();
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
  EXPECT_EQ(test::read_events(folder.path())["scalars"]["a"], Json::parse("[[1, 1.0]]"));
}

// "brain.Event:2" with its checksums, as TensorFlow writes it: the first record of every event file, but for its time.
TEST(EventFileFormat, Framing) {
  const test::TemporaryFolder folder;
  std::string path;
  {
    EventFile file(folder / "new/folder");
    path = file.path();
  }
  const std::string bytes = test::read_text(path);
  ASSERT_EQ(bytes.size(), 8u + 4 + 24 + 4);
  EXPECT_EQ(bytes.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  EXPECT_EQ(bytes.substr(12, 1), "\x09");
  EXPECT_EQ(bytes.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
  test::write_bytes(folder / "file", {});
  EXPECT_THROW(EventFile(folder / "file"), IoError);
}

// Castagnoli's CRC, bit by bit, masked as in TensorFlow's lib/hash/crc32c.h.
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <class T>
T number_at(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.substr(at, sizeof(T)).data(), sizeof(T));
  return value;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Without the tensorboard package too.
TEST(EventFileFormat, RecordsHaveLengthChecksumsAndTime) {
  const test::TemporaryFolder folder;
  const double before = now();
  std::vector<std::string> paths;
  for (int i = 0; i < 3; ++i) {  // three files of one process in one second
    EventFile file(folder.path());
    for (int step = 0; step < 4; ++step) file.text("words", step, std::string(static_cast<size_t>(100 * step), 'w'));
    paths.push_back(file.path());
  }
  const double after = now();
  EXPECT_EQ(folder.names().size(), 3u);
  for (const std::string& path : paths) {
    const std::string file = test::read_text(path);
    std::string_view bytes = file;
    int records = 0;
    for (; bytes.size() >= 16; ++records) {
      const auto length = number_at<uint64_t>(bytes, 0);
      ASSERT_LE(length, bytes.size() - 16);
      EXPECT_EQ(number_at<uint32_t>(bytes, 8), masked_crc(bytes.substr(0, 8)));
      EXPECT_EQ(number_at<uint32_t>(bytes, 12 + length), masked_crc(bytes.substr(12, length)));
      ASSERT_EQ(bytes[12], '\x09') << "field 1, a double";
      EXPECT_GE(number_at<double>(bytes, 13), before - 0.01);
      EXPECT_LE(number_at<double>(bytes, 13), after + 0.01);
      bytes.remove_prefix(16 + length);
    }
    EXPECT_EQ(bytes.size(), 0u);
    EXPECT_EQ(records, 5);
  }
}

// What the last record says behind its time.
std::string last_event(const std::string& path) {
  const std::string file = test::read_text(path);
  std::string_view bytes = file, last;
  while (bytes.size() >= 16) {
    const auto length = number_at<uint64_t>(bytes, 0);
    last = bytes.substr(12, length);
    bytes.remove_prefix(16 + length);
  }
  return std::string(last.substr(9));
}

std::string doubles(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

// Fields by the .proto files of TensorFlow (event, summary), each key (number << 3 | type) written out: what the tests
// above see through TensorBoard.
TEST(EventFileFormat, FieldsHaveTheirNumbersAndTypes) {
  const test::TemporaryFolder folder;
  EventFile file(folder.path());
  file.scalar("a", 128, 2.5);  // 128 is the least number of two bytes
  EXPECT_EQ(last_event(file.path()), std::string("\x10\x80\x01\x2a\x0a\x0a\x08\x0a\x01"
                                                 "a\x15\0\0\x20\x40",
                                                 15));
  file.scalar("a", 127, 2.5);
  EXPECT_EQ(last_event(file.path()).substr(0, 3), "\x10\x7f\x2a");
  file.histogram("w", 300, {.min = -1, .max = 3, .sum = 4, .sum_squares = 20, .counts = {1, 7}});
  const std::string histogram = "\x09" + doubles({-1}) + "\x11" + doubles({3}) + "\x19" + doubles({8}) + "\x21" +
                                doubles({4}) + "\x29" + doubles({20}) + "\x32\x10" + doubles({1, 3}) + "\x3a\x10" +
                                doubles({1, 7});
  EXPECT_EQ(last_event(file.path()), "\x10\xac\x02\x2a\x58\x0a\x56\x0a\x01w\x2a\x51" + histogram);
}

TEST(Summaries, HistogramsCountFiniteElements) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const std::string& id : test::value_devices()) {
    DeviceContext& d = device(id);
    const std::vector<Tensor> tensors = {Tensor::from_vector<float>({0, 1, 2, 3, 4, 4, inf, -inf, NAN}, {3, 3}, &d),
                                         full({7}, 2.5, DType::f32, &d),
                                         zeros({0, 3}, DType::f32, &d),
                                         Tensor::from_vector<float>({inf, NAN}, {2}, &d),
                                         Tensor::from_vector<float>({-3e38f, 3e38f}, {2}, &d),
                                         Tensor::from_vector<int32_t>({1, 2, 3, 4}, {2, 2}, &d)};
    const std::vector<HistogramSummary> h = train::histograms_of(tensors, 4);
    EXPECT_EQ(h[0].min, 0) << id;
    EXPECT_EQ(h[0].max, 4);
    EXPECT_EQ(h[0].sum, 14);
    EXPECT_EQ(h[0].sum_squares, 46);
    EXPECT_EQ(h[0].counts, (std::vector<double>{1, 1, 1, 3})) << id;
    EXPECT_EQ(h[1].counts, (std::vector<double>{0, 0, 7, 0})) << id;
    EXPECT_EQ(h[1].min, 2.5);
    for (const size_t none : {size_t{2}, size_t{3}}) EXPECT_EQ(h[none].counts, std::vector<double>(4)) << id;
    EXPECT_EQ(h[4].counts, (std::vector<double>{1, 0, 0, 1})) << id;
    EXPECT_EQ(h[5].counts, (std::vector<double>{1, 1, 1, 1})) << id;
  }
}

}  // namespace
}  // namespace heddle
