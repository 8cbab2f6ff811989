#include "heddle/io/event_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/io/atomic_file.h"

namespace heddle {
namespace {

// A message in protobuf's wire format. Fields are named by their numbers in the .proto file.
class Message {
 public:
  Message& integer(int field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& number(int field, double value) {
    key(field, 1);
    little_endian(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  Message& single(int field, float value) {
    key(field, 5);
    little_endian(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  // Texts, bytes and messages.
  Message& bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    out_ += value;
    return *this;
  }
  Message& numbers(int field, const std::vector<double>& values) {
    Message packed;
    for (const double value : values) packed.little_endian(std::bit_cast<uint64_t>(value), 8);
    return bytes(field, packed.str());
  }
  const std::string& str() const { return out_; }

  void little_endian(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i));
  }

 private:
  void key(int field, int wire_type) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }

  std::string out_;
};

// CRC-32C (Castagnoli), bits reflected; RFC 3720, appendix B.4.
uint32_t crc32c(std::string_view data) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ ((t[i] & 1) != 0 ? 0x82f63b78u : 0);
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (const char c : data) crc = crc >> 8 ^ table[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

// As records of TensorFlow hold it, so that the checksum of data that hold checksums is not special.
uint32_t masked_crc(std::string_view data) { return std::rotr(crc32c(data), 15) + 0xa282ead8u; }

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Message Event: wall_time = 1, step = 2.
Message event(int64_t step) {
  Message m;
  m.number(1, wall_time()).integer(2, step);
  return m;
}

// SummaryMetadata: plugin_data = 1 {plugin_name = 1}, data_class = 4 (2: tensor).
std::string metadata(std::string_view plugin) {
  return Message().bytes(1, Message().bytes(1, plugin).str()).integer(4, 2).str();
}

// TensorShapeProto: dim = 2 {size = 1}.
std::string shape_message(const std::vector<int64_t>& shape) {
  Message m;
  for (const int64_t size : shape) m.bytes(2, Message().integer(1, size).str());
  return m.str();
}

// NodeDef: name = 1, op = 2, input = 3, attr = 5 (map: key = 1, value = 2). AttrValue: list = 1 (shape = 7).
std::string node_message(const GraphVertex& vertex) {
  Message node;
  node.bytes(1, vertex.name).bytes(2, vertex.op);
  for (const std::string& input : vertex.inputs) node.bytes(3, input);
  const std::string shapes = Message().bytes(1, Message().bytes(7, shape_message(vertex.shape)).str()).str();
  return node.bytes(5, Message().bytes(1, "_output_shapes").bytes(2, shapes).str()).str();
}

}  // namespace

EventFile::EventFile(const std::string& folder) {
  require_writable_folder(folder);
  for (int number = 0; descriptor_ < 0; ++number) {
    const std::string name = fmt::format("events.out.tfevents.{}.{}.{}.{}", static_cast<int64_t>(wall_time()),
                                         os::host_name(), os::process_id(), number);
    path_ = (fs::path(folder) / name).string();
    descriptor_ = open_file(path_, FileAccess::create_append);
    if (descriptor_ < 0 && errno != EEXIST)
      throw IoError(fmt::format("[events] {}: cannot create it: {}", path_, std::strerror(errno)));
  }
  append(Message().number(1, wall_time()).bytes(3, "brain.Event:2").str());  // file_version = 3
}

EventFile::~EventFile() { os::close_file(descriptor_); }

void EventFile::append(std::string_view data) const {
  Message length, record;
  length.little_endian(data.size(), 8);
  record.little_endian(data.size(), 8);
  record.little_endian(masked_crc(length.str()), 4);
  const std::string text = record.str() + std::string(data);
  Message end;
  end.little_endian(masked_crc(data), 4);
  const std::string whole = text + end.str();
  if (!append_whole(descriptor_, whole))
    throw IoError(fmt::format("[events] {}: cannot append to it: {}", path_, std::strerror(errno)));
}

// Event: summary = 5; Summary: value = 1.
void EventFile::summary(int64_t step, std::string_view value) const {
  append(event(step).bytes(5, Message().bytes(1, value).str()).str());
}

// Summary.Value: tag = 1, simple_value = 2.
void EventFile::scalar(std::string_view tag, int64_t step, double value) {
  summary(step, Message().bytes(1, tag).single(2, static_cast<float>(value)).str());
}

// Value: histo = 5; HistogramProto: min, max, num, sum, sum_squares = 1 to 5, bucket_limit (upper ends) = 6, bucket
// = 7.
void EventFile::histogram(std::string_view tag, int64_t step, const HistogramSummary& h) {
  const double low = h.max > h.min ? h.min : h.min - 0.5, high = h.max > h.min ? h.max : h.max + 0.5;
  double count = 0;
  std::vector<double> limits;
  for (size_t i = 0; i < h.counts.size(); ++i) {
    count += h.counts[i];
    limits.push_back(low + (high - low) * static_cast<double>(i + 1) / static_cast<double>(h.counts.size()));
  }
  Message histogram;
  histogram.number(1, h.min)
      .number(2, h.max)
      .number(3, count)
      .number(4, h.sum)
      .number(5, h.sum_squares)
      .numbers(6, limits)
      .numbers(7, h.counts);
  summary(step, Message().bytes(1, tag).bytes(5, histogram.str()).str());
}

// Value: tensor = 8, metadata = 9; TensorProto: dtype = 1 (7: string), tensor_shape = 2, string_val = 8.
void EventFile::text(std::string_view tag, int64_t step, std::string_view text) {
  const std::string tensor = Message().integer(1, 7).bytes(2, shape_message({1})).bytes(8, text).str();
  summary(step, Message().bytes(1, tag).bytes(8, tensor).bytes(9, metadata("text")).str());
}

// Value: image = 4; Image: height, width, colorspace, encoded_image_string = 1 to 4.
void EventFile::image(std::string_view tag, int64_t step, int64_t height, int64_t width, int64_t channels,
                      std::string_view png) {
  const std::string image = Message().integer(1, height).integer(2, width).integer(3, channels).bytes(4, png).str();
  summary(step, Message().bytes(1, tag).bytes(4, image).str());
}

// Event: graph_def = 4; GraphDef: node = 1, versions = 4 (VersionDef: producer = 1).
void EventFile::graph(const std::vector<GraphVertex>& vertices) {
  Message graph;
  for (const GraphVertex& vertex : vertices) graph.bytes(1, node_message(vertex));
  append(event(0).bytes(4, graph.bytes(4, Message().integer(1, 22).str()).str()).str());
}

}  // namespace heddle
