#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string_view>

#include "heddle/core/base/system/files.h"

namespace heddle::os {
namespace {

constexpr int first_free = STDERR_FILENO + 1;

int flags_of(FileAccess access) {
  switch (access) {
    case FileAccess::read:
      return O_RDONLY;
    case FileAccess::update:
      return O_RDWR | O_CREAT;
    case FileAccess::append:
      return O_RDWR | O_CREAT | O_APPEND;
    case FileAccess::create_append:
      return O_WRONLY | O_CREAT | O_EXCL | O_APPEND;
    default:
      return O_WRONLY | O_CREAT | O_EXCL;
  }
}

int open_above_standard(const std::string& path, int flags, mode_t mode) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0 || descriptor >= first_free) return descriptor;
  const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, first_free);
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  return moved;
}

double seconds_since(const timespec& then) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec - then.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec - then.tv_nsec);
}

FileFacts facts(const struct stat& status) {
  FileFacts result;
  result.regular = S_ISREG(status.st_mode);
  result.folder = S_ISDIR(status.st_mode);
  result.bytes = static_cast<uint64_t>(status.st_size);
  result.used = seconds_since(status.st_atim);
  result.modified = seconds_since(status.st_mtim);
  return result;
}

// Of an entry of an open folder, never through a link; waits for nobody (a FIFO without a writer).
int open_entry(int folder, const std::string& name, int flags) {
  for (;;) {
    const int descriptor = ::openat(folder, name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor >= 0 || errno != EINTR) return descriptor;
  }
}

// A reason not to read an open file; 0 where there is none.
int refused(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EINVAL;
  return status.st_nlink > 1 ? EMLINK : 0;
}

struct Close {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

std::error_code reason() { return {errno, std::generic_category()}; }

std::unique_ptr<DIR, Close> open_folder(const std::string& path) {
  const int descriptor = open_above_standard(path, O_RDONLY | O_DIRECTORY, 0);
  DIR* folder = descriptor < 0 ? nullptr : ::fdopendir(descriptor);
  if (!folder && descriptor >= 0) {
    const int code = errno;
    ::close(descriptor);
    errno = code;
  }
  return std::unique_ptr<DIR, Close>(folder);
}

}  // namespace

int open_file(const std::string& path, FileAccess access) {
  return open_above_standard(path, flags_of(access), access == FileAccess::create_own ? 0644 : 0666);
}

int open_beneath(const std::string& folder, const std::string& path) {
  int here = open_above_standard(folder, O_RDONLY | O_DIRECTORY, 0);
  for (size_t at = 0; here >= 0 && at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const bool last = end == path.size();
    const std::string name = path.substr(at, end - at);
    int next = -1;
    if (name.empty() || name == "." || name == "..")
      errno = EINVAL;
    else
      next = open_entry(here, name, O_RDONLY | (last ? 0 : O_DIRECTORY));
    int reason = next < 0 ? errno : last ? refused(next) : 0;
    ::close(here);
    if (next >= 0 && reason != 0) ::close(next);
    if (reason != 0) {
      errno = reason;
      return -1;
    }
    here = next;
    at = end + 1;
  }
  return here;
}

bool close_file(int descriptor) { return ::close(descriptor) == 0; }

int64_t read_some(int descriptor, void* to, size_t bytes) {
  for (;;) {
    const ssize_t got = ::read(descriptor, to, bytes);
    if (got >= 0 || errno != EINTR) return got;
  }
}

int64_t write_some(int descriptor, const void* from, size_t bytes) {
  for (;;) {
    const ssize_t wrote = ::write(descriptor, from, bytes);
    if (wrote >= 0 || errno != EINTR) return wrote;
  }
}

int64_t read_at(int descriptor, void* to, size_t bytes, uint64_t at) {
  for (;;) {
    const ssize_t got = ::pread(descriptor, to, bytes, static_cast<off_t>(at));
    if (got >= 0 || errno != EINTR) return got;
  }
}

bool seek_to(int descriptor, uint64_t at) { return ::lseek(descriptor, static_cast<off_t>(at), SEEK_SET) >= 0; }

int64_t seek_end(int descriptor) { return ::lseek(descriptor, 0, SEEK_END); }

bool cut_file(int descriptor, int64_t bytes) { return ::ftruncate(descriptor, bytes) == 0; }

bool flush_file(int descriptor) { return ::fsync(descriptor) == 0; }

void flush_folder(const std::string& path) {
  const int folder = open_above_standard(path, O_RDONLY | O_DIRECTORY, 0);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

std::optional<FileFacts> facts_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  return facts(status);
}

std::optional<FileFacts> facts_of(const std::string& path, bool follow) {
  struct stat status {};
  if ((follow ? ::stat(path.c_str(), &status) : ::lstat(path.c_str(), &status)) != 0) return std::nullopt;
  return facts(status);
}

std::string stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "absent";
  return fmt::format("{} {} {} {}", status.st_dev, status.st_ino, status.st_size, status.st_mtime);
}

void note_use(int descriptor) {
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ::futimens(descriptor, times);
}

bool is_readable(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }
bool is_executable(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

bool replace_file(const std::string& from, const std::string& to) { return ::rename(from.c_str(), to.c_str()) == 0; }
bool remove_file(const std::string& path) { return ::unlink(path.c_str()) == 0; }

std::string make_scratch_folder(const std::string& prefix) {
  std::string name = prefix + "-XXXXXX";
  return ::mkdtemp(name.data()) != nullptr ? name : std::string();
}

std::vector<std::string> list_folder(const std::string& folder, std::error_code& error) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, Close> listing = open_folder(folder);
  error = listing ? std::error_code() : reason();
  while (listing) {
    errno = 0;
    const dirent* entry = ::readdir(listing.get());
    if (!entry && errno != 0) error = reason();
    if (!entry) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

Lock lock_file(int descriptor) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return Lock::taken;
  return errno == EWOULDBLOCK ? Lock::busy : Lock::failed;
}

}  // namespace heddle::os
