#include "heddle/core/base/files.h"

#include <cerrno>

namespace heddle {

// What failed before is still to be told.
Descriptor::~Descriptor() {
  const int reason = errno;
  if (number_ >= 0) os::close_file(number_);
  errno = reason;
}

int64_t read_fully(int descriptor, void* to, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const int64_t got = os::read_some(descriptor, static_cast<char*>(to) + done, bytes - done);
    if (got < 0) return got;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<int64_t>(done);
}

bool write_fully(int descriptor, const void* from, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const int64_t wrote = os::write_some(descriptor, static_cast<const char*>(from) + done, bytes - done);
    if (wrote == 0) errno = ENOSPC;
    if (wrote <= 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

bool append_whole(int descriptor, std::string_view text) {
  const int64_t end = os::seek_end(descriptor);
  if (write_fully(descriptor, text.data(), text.size())) return true;
  const int reason = errno;
  // Where that fails as well, the unfinished end stays: readers pass over it.
  if (end >= 0) os::cut_file(descriptor, end);
  errno = reason;
  return false;
}

}  // namespace heddle
