#include "heddle/core/base/files.h"

#include <cerrno>

namespace heddle {
namespace {

constexpr int first_free = STDERR_FILENO + 1;

}  // namespace

int open_file(const std::string& path, int flags, mode_t mode) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0 || descriptor >= first_free) return descriptor;
  const Descriptor low(descriptor);
  return ::fcntl(descriptor, F_DUPFD_CLOEXEC, first_free);
}

// What failed before is still to be told.
Descriptor::~Descriptor() {
  const int reason = errno;
  if (number_ >= 0) ::close(number_);
  errno = reason;
}

ssize_t read_fully(int descriptor, void* to, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::read(descriptor, static_cast<char*>(to) + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return got;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

bool write_fully(int descriptor, const void* from, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t wrote = ::write(descriptor, static_cast<const char*>(from) + done, bytes - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote == 0) errno = ENOSPC;
    if (wrote <= 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

bool append_whole(int descriptor, std::string_view text) {
  const off_t end = ::lseek(descriptor, 0, SEEK_END);
  if (write_fully(descriptor, text.data(), text.size())) return true;
  const int reason = errno;
  // Where that fails as well, the unfinished end stays: readers pass over it.
  [[maybe_unused]] const int cut = end < 0 ? -1 : ::ftruncate(descriptor, end);
  errno = reason;
  return false;
}

}  // namespace heddle
