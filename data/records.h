// Records: examples packed into one file, read by number where they lie, for data larger than memory.
//
// Layout, little-endian: 8 bytes "HDLREC01"; the records, each the arrays of an example (count u8; for each: dtype u8,
// rank u8, rank x i64, the elements); the metadata (text); the index, for each record its offset u64, bytes u64 and
// CRC-32 u32; and 52 bytes at the end: offset and bytes of the metadata and of the index (4 x u64), CRC-32 of metadata,
// of index and of the end itself (3 x u32), "HDLREC01". Invariants: a file has its name only when it is whole; every
// byte is under a checksum or compared; a record is checked whenever it is read. The file is read, not mapped: one that
// is cut or overwritten while it is open gives an error, where a map would end the process.
// Errors: IoError with the path, and the record. Thread safety: RecordFile may be read by several threads; a writer is
// driven by one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/owned.h"
#include "heddle/data/dataset.h"

namespace heddle {
class AtomicFile;
class Descriptor;
}  // namespace heddle

namespace heddle::data {

class RecordWriter {
 public:
  // `metadata`: any text, JSON by custom: what training and inference have to agree on (means, vocabularies, class
  // names).
  explicit RecordWriter(const std::string& path, std::string metadata = "");
  ~RecordWriter();
  // ValueError for more than 255 arrays.
  void add(const Sample& sample);
  // The file appears; nothing may be added any more.
  void finish();
  int64_t size() const { return static_cast<int64_t>(index_.size()); }

 private:
  struct Entry {
    uint64_t offset, bytes;
    uint32_t crc;
  };
  friend class RecordFile;
  void append(const void* data, size_t bytes);

  std::string path_, metadata_;
  Owned<AtomicFile> file_;
  std::vector<Entry> index_;
  uint64_t at_ = 0;
  bool finished_ = false;
};

class RecordFile final : public Dataset {
 public:
  explicit RecordFile(const std::string& path);
  ~RecordFile() override;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  int64_t size() const override { return static_cast<int64_t>(index_.size()); }
  Sample get(int64_t index, Random& random) const override;
  const std::string& metadata() const { return metadata_; }

 private:
  void read_end();
  std::vector<uint8_t> read(uint64_t at, uint64_t bytes) const;

  std::string path_, metadata_;
  Owned<const Descriptor> file_;
  uint64_t size_ = 0;
  std::vector<RecordWriter::Entry> index_;
};

// Every example of a dataset, in order; returns how many.
int64_t pack(const Dataset& dataset, const std::string& path, const std::string& metadata = "");

}  // namespace heddle::data
