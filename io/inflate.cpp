#include "heddle/io/inflate.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "heddle/core/base/error.h"

namespace heddle {

Inflater::Inflater(std::span<const uint8_t> in, Format format, std::string who, std::string path)
    : stream_(std::make_unique<z_stream>()),
      in_(in),
      who_(std::move(who)),
      path_(std::move(path)),
      kind_(format == Format::gzip ? "gzip file" : "deflate stream") {
  constexpr std::array<int, 3> window_bits = {15 + 16, 15, -15};  // as zlib tells the formats apart
  if (inflateInit2(stream_.get(), window_bits[static_cast<size_t>(format)]) != Z_OK) fail("zlib could not be started");
}

Inflater::~Inflater() { inflateEnd(stream_.get()); }

void Inflater::fill(std::vector<uint8_t>& out, size_t target) {
  constexpr size_t piece = 1 << 18;
  while (!done_ && out.size() < target) {
    const size_t before = out.size(), room = std::min(piece, target - before);
    out.resize(before + room);
    stream_->next_in = const_cast<Bytef*>(in_.data() + used_);
    stream_->avail_in = static_cast<uInt>(std::min<size_t>(in_.size() - used_, std::numeric_limits<uInt>::max()));
    const uInt given = stream_->avail_in;
    stream_->next_out = out.data() + before;
    stream_->avail_out = static_cast<uInt>(room);
    const int code = inflate(stream_.get(), Z_NO_FLUSH);
    used_ += given - stream_->avail_in;
    out.resize(before + room - stream_->avail_out);
    check(code, out.size());
  }
  if (done_ && used_ != in_.size())
    fail(fmt::format("{} bytes of garbage after the end of the {}", in_.size() - used_, kind_));
}

void Inflater::check(int code, size_t out_bytes) {
  if (code == Z_STREAM_END) {
    done_ = true;
    return;
  }
  if (code == Z_BUF_ERROR || (code == Z_OK && used_ == in_.size() && stream_->avail_out > 0)) {
    fail(
        fmt::format("truncated {}: it ends after {} compressed bytes ({} decompressed)", kind_, in_.size(), out_bytes));
  }
  if (code != Z_OK)
    fail(fmt::format("corrupt {} at compressed byte {}: {}", kind_, used_, stream_->msg ? stream_->msg : "bad data"));
}

void Inflater::fail(const std::string& what) const { throw IoError(fmt::format("[{}] {}: {}", who_, path_, what)); }

}  // namespace heddle
