#include "heddle/data/records.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/io/atomic_file.h"

namespace heddle::data {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they lie in memory");

constexpr std::string_view record_magic = "HDLREC01";
constexpr size_t entry_bytes = 20, end_bytes = 52;
// By code in the file; never reordered.
constexpr std::array record_dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64,    DType::i8,
                                      DType::u8,  DType::i32, DType::i64,  DType::boolean};

uint32_t crc_of(const void* data, size_t bytes) {
  return static_cast<uint32_t>(::crc32_z(0, static_cast<const Bytef*>(data), bytes));
}

template <class T>
void put(std::vector<uint8_t>& out, T value) {
  const auto* at = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), at, at + sizeof(T));
}

// What lies between two bounds; fail() where it ends too early.
template <class Fail>
class RecordReader {
 public:
  RecordReader(const uint8_t* at, uint64_t bytes, const Fail& fail) : at_(at), left_(bytes), fail_(fail) {}
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  const uint8_t* take(uint64_t bytes) {
    if (bytes > left_) fail_("it ends too early");
    const uint8_t* from = at_;
    at_ += bytes;
    left_ -= bytes;
    return from;
  }
  uint64_t left() const { return left_; }

 private:
  const uint8_t* at_;
  uint64_t left_;
  const Fail& fail_;
};

std::vector<uint8_t> encoded(const Sample& sample) {
  if (sample.size() > 255)
    throw ValueError(fmt::format("[records] an example has {} arrays, at most 255 can be stored", sample.size()));
  std::vector<uint8_t> out;
  put(out, static_cast<uint8_t>(sample.size()));
  for (const Array& array : sample) {
    array.require_whole("records");
    const auto code = std::find(record_dtypes.begin(), record_dtypes.end(), array.dtype) - record_dtypes.begin();
    put(out, static_cast<uint8_t>(code));
    put(out, static_cast<uint8_t>(array.shape.rank()));
    for (const int64_t d : array.shape) put(out, d);
    const auto* data = reinterpret_cast<const uint8_t*>(array.bytes.data());
    out.insert(out.end(), data, data + array.bytes.size());
  }
  return out;
}

template <class Fail>
Array decoded_array(RecordReader<Fail>& in, const Fail& fail) {
  const auto code = in.template take<uint8_t>();
  const auto rank = in.template take<uint8_t>();
  if (code >= record_dtypes.size() || rank > Shape::max_rank) fail("it has an unknown dtype or rank");
  Array array{record_dtypes[code], {}, {}};
  uint64_t bytes = size_of(array.dtype);
  for (int d = 0; d < rank; ++d) {
    const auto size = in.template take<int64_t>();
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      fail("it has an impossible shape");
    array.shape.push_back(size);
  }
  const auto* data = reinterpret_cast<const std::byte*>(in.take(bytes));
  array.bytes.assign(data, data + bytes);
  return array;
}

template <class Fail>
Sample decoded(const uint8_t* at, uint64_t bytes, const Fail& fail) {
  RecordReader in(at, bytes, fail);
  Sample sample;
  for (int left = in.template take<uint8_t>(); left > 0; --left) sample.push_back(decoded_array(in, fail));
  if (in.left() != 0) fail("bytes are left over");
  return sample;
}

}  // namespace

// ---- writing

RecordWriter::RecordWriter(const std::string& path, std::string metadata)
    : path_(path), metadata_(std::move(metadata)), file_(std::make_unique<AtomicFile>(path)) {
  append(record_magic.data(), record_magic.size());
}

void RecordWriter::append(const void* data, size_t bytes) {
  file_->write({data, bytes});
  at_ += bytes;
}

void RecordWriter::add(const Sample& sample) {
  if (finished_) throw ValueError(fmt::format("[records] {} is finished", path_));
  const std::vector<uint8_t> bytes = encoded(sample);
  index_.push_back({at_, bytes.size(), crc_of(bytes.data(), bytes.size())});
  append(bytes.data(), bytes.size());
}

void RecordWriter::finish() {
  if (finished_) throw ValueError(fmt::format("[records] {} is finished", path_));
  finished_ = true;
  const uint64_t metadata_at = at_;
  append(metadata_.data(), metadata_.size());
  const uint64_t index_at = at_;
  std::vector<uint8_t> index;
  for (const Entry& entry : index_) {
    put(index, entry.offset);
    put(index, entry.bytes);
    put(index, entry.crc);
  }
  append(index.data(), index.size());
  std::vector<uint8_t> end;
  for (const uint64_t number : {metadata_at, uint64_t{metadata_.size()}, index_at, uint64_t{index.size()}})
    put(end, number);
  put(end, crc_of(metadata_.data(), metadata_.size()));
  put(end, crc_of(index.data(), index.size()));
  put(end, crc_of(end.data(), end.size()));
  end.insert(end.end(), record_magic.begin(), record_magic.end());
  append(end.data(), end.size());
  file_->publish();
}

// ---- reading

RecordWriter::~RecordWriter() = default;

RecordFile::RecordFile(const std::string& path)
    : path_(path), file_(std::make_unique<Descriptor>(open_file(path, FileAccess::read))) {
  const std::optional<os::FileFacts> facts = *file_ ? os::facts_of(file_->number()) : std::nullopt;
  if (!facts || !facts->regular) {
    const std::string reason = *file_ || errno == EISDIR ? "not a file" : std::strerror(errno);
    throw IoError(fmt::format("[records] {}: cannot read: {}", path_, reason));
  }
  size_ = facts->bytes;
  read_end();
}

RecordFile::~RecordFile() = default;

std::vector<uint8_t> RecordFile::read(uint64_t at, uint64_t bytes) const {
  std::vector<uint8_t> out(bytes);
  for (uint64_t done = 0; done < bytes;) {
    const int64_t count = os::read_at(file_->number(), out.data() + done, bytes - done, at + done);
    if (count < 0) throw IoError(fmt::format("[records] {}: cannot read: {}", path_, std::strerror(errno)));
    if (count == 0)
      throw IoError(fmt::format("[records] {}: it became shorter than the {} bytes that it had when it was opened",
                                path_, size_));
    done += static_cast<uint64_t>(count);
  }
  return out;
}

void RecordFile::read_end() {
  const auto fail = [&](const char* what) {
    throw IoError(fmt::format("[records] {}: truncated or corrupt: {}", path_, what));
  };
  const auto is_magic = [&](uint64_t at) {
    return std::memcmp(read(at, record_magic.size()).data(), record_magic.data(), record_magic.size()) == 0;
  };
  if (size_ < record_magic.size() + end_bytes || !is_magic(0))
    throw IoError(fmt::format("[records] {}: not a file of records; `heddle pack` makes one", path_));
  if (!is_magic(size_ - record_magic.size())) fail("its end is missing");
  const std::vector<uint8_t> end = read(size_ - end_bytes, end_bytes);
  RecordReader in(end.data(), end_bytes, fail);
  const auto metadata_at = in.take<uint64_t>(), metadata_bytes = in.take<uint64_t>(), index_at = in.take<uint64_t>(),
             index_bytes = in.take<uint64_t>();
  const auto metadata_crc = in.take<uint32_t>(), index_crc = in.take<uint32_t>(), end_crc = in.take<uint32_t>();
  if (crc_of(end.data(), 40) != end_crc) fail("its end does not match its checksum");
  const uint64_t body = size_ - end_bytes;
  if (metadata_at > body || metadata_bytes > body - metadata_at || index_at != metadata_at + metadata_bytes ||
      index_bytes != body - index_at || index_bytes % entry_bytes != 0) {
    fail("its parts do not fit together");
  }
  const std::vector<uint8_t> entries = read(index_at, index_bytes), metadata = read(metadata_at, metadata_bytes);
  if (crc_of(entries.data(), entries.size()) != index_crc) fail("its index does not match its checksum");
  if (crc_of(metadata.data(), metadata.size()) != metadata_crc) fail("its metadata does not match its checksum");
  metadata_.assign(metadata.begin(), metadata.end());
  RecordReader index(entries.data(), index_bytes, fail);
  for (uint64_t at = record_magic.size(); index.left() > 0; at += index_.back().bytes) {
    index_.push_back({index.take<uint64_t>(), index.take<uint64_t>(), index.take<uint32_t>()});
    if (index_.back().offset != at || index_.back().bytes > metadata_at - at) fail("its index does not fit");
  }
  if (!index_.empty() && index_.back().offset + index_.back().bytes != metadata_at) fail("its index does not fit");
}

Sample RecordFile::get(int64_t index, Random&) const {
  if (index < 0 || index >= size())
    throw ValueError(fmt::format("[records] {}: there is no record {} among {}", path_, index, size()));
  const RecordWriter::Entry& entry = index_[static_cast<size_t>(index)];
  const auto fail = [&](const char* what) {
    throw IoError(fmt::format("[records] {}: record {} is corrupt: {}", path_, index, what));
  };
  const std::vector<uint8_t> bytes = read(entry.offset, entry.bytes);
  if (crc_of(bytes.data(), bytes.size()) != entry.crc) fail("it does not match its checksum");
  return decoded(bytes.data(), bytes.size(), fail);
}

int64_t pack(const Dataset& dataset, const std::string& path, const std::string& metadata) {
  RecordWriter writer(path, metadata);
  for (int64_t i = 0; i < dataset.size(); ++i) {
    Random random(0, 0, static_cast<uint64_t>(i));
    writer.add(dataset.get(i, random));
  }
  writer.finish();
  return writer.size();
}

}  // namespace heddle::data
