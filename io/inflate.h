// Inflating what zlib's deflate wrote, piece by piece.
//
// Invariants: memory grows with what really comes out, never on the word of a header. Errors: IoError "[who] path: ..."
// for truncated or corrupt streams and bytes behind the end. Thread safety: one thread drives an Inflater.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct z_stream_s;  // zlib's

namespace heddle {

class Inflater {
 public:
  enum class Format : uint8_t { gzip, zlib, raw };
  // `in` is not copied. `who` and `path` stand in errors.
  Inflater(std::span<const uint8_t> in, Format format, std::string who, std::string path);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Appends to `out` until it holds `target` bytes or the stream ends.
  void fill(std::vector<uint8_t>& out, size_t target);

 private:
  void check(int code, size_t out_bytes);
  [[noreturn]] void fail(const std::string& what) const;

  std::unique_ptr<z_stream_s> stream_;
  std::span<const uint8_t> in_;
  std::string who_, path_;
  const char* kind_;
  size_t used_ = 0;
  bool done_ = false;
};

}  // namespace heddle
