// Files by descriptor: opened so that they never take a standard stream's number, read whole, appended to as a whole.
//
// Purpose: a process may be started with its standard input, output and error closed, and the next file that is opened
// then takes 0, 1 or 2: what is printed would land in it. Every file that the library opens is opened by open_file().
// Invariants: a descriptor of open_file() is 3 or more, and closed in programs that this one starts.
// Errors: as system calls, errno; the callers know what to say. Thread safety: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "heddle/core/base/system/files.h"

namespace heddle {

using os::FileAccess;
using os::open_file;

// Closes at the end of its life; -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

// As os::read_some(), but less than `bytes` only at the end of the file.
int64_t read_fully(int descriptor, void* to, size_t bytes);

// All of it, or false and errno; then some of it may have been written.
bool write_fully(int descriptor, const void* from, size_t bytes);

// All of it at the end of a file that is open for appending, or nothing: false and errno, and the file is as long as
// before.
bool append_whole(int descriptor, std::string_view text);

// A whole file, into a string or a vector of bytes, behind what is there. False and errno when it cannot be opened or
// read.
template <class Content>
bool read_contents(const std::string& path, Content& content) {
  const Descriptor file(open_file(path, FileAccess::read));
  if (!file) return false;
  const std::optional<os::FileFacts> facts = os::facts_of(file.number());
  const bool sized = facts && facts->regular && facts->bytes > 0;  // files of /proc say 0
  const size_t piece = sized ? static_cast<size_t>(facts->bytes) + 1 : size_t{64} << 10;
  int64_t got = 0;
  do {
    const size_t before = content.size();
    content.resize(before + piece);
    got = read_fully(file.number(), content.data() + before, piece);
    content.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
  } while (got == static_cast<int64_t>(piece));
  return got >= 0;
}

}  // namespace heddle
