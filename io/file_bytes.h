// FileBytes: a whole file as bytes that nobody changes: read into memory, or mapped.
//
// Purpose: what is read is a copy, which a file that is cut or overwritten meanwhile cannot harm. What is mapped costs
// no memory of its own and no time until it is touched, and is asked for by name: where another process cuts such a
// file in place, touching what is gone ends this process (core/base/system/mapping.h). Files that appear by rename
// (io/atomic_file.h) are never cut. Invariants: bytes stay where they are when a FileBytes is moved. Errors: IoError
// "[who] path: reason" for what is missing, no regular file (a folder, a FIFO, a device), or cannot be read or mapped.
// Thread safety: as a plain value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

class FileBytes {
 public:
  FileBytes() = default;
  ~FileBytes();
  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;

  static FileBytes read(const std::string& path, std::string_view who);
  static FileBytes map(const std::string& path, std::string_view who);
  // Bytes that came in another way.
  static FileBytes of(std::vector<uint8_t> bytes);

  std::span<const uint8_t> bytes() const { return bytes_; }
  bool is_mapped() const { return mapped_; }

 private:
  std::vector<uint8_t> own_;
  std::span<const uint8_t> bytes_;
  bool mapped_ = false;
};

}  // namespace heddle
