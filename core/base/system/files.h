// Files by descriptor and by path, as the system has them; paths are UTF-8 on every system.
//
// Invariants: a descriptor of open_file() is 3 or more, so that what is printed never lands in it, and is closed in
// programs that this one starts. Errors: -1, false or nothing, and errno. Thread safety: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace heddle::os {

enum class FileAccess {
  read,
  update,         // read and write; made where it is missing
  append,         // read, and write at the end; made where it is missing
  create,         // write; refused where it is there (EEXIST)
  create_own,     // the same, and nobody but its owner may ever write it
  create_append,  // create, and write at the end
};
int open_file(const std::string& path, FileAccess access);
// A regular file below a folder, for reading: no part of `path` (folders and a name, "/" between) may be a link, and
// the file may have no second name. ELOOP, ENOTDIR, EMLINK or EINVAL say so.
int open_beneath(const std::string& folder, const std::string& path);
// As close(2).
bool close_file(int descriptor);

// As read(2) and write(2); signals do not end them early.
int64_t read_some(int descriptor, void* to, size_t bytes);
int64_t write_some(int descriptor, const void* from, size_t bytes);
// Of the bytes from `at`; the place where read_some() goes on may change.
int64_t read_at(int descriptor, void* to, size_t bytes, uint64_t at);
bool seek_to(int descriptor, uint64_t at);
// How long it is; the next write goes there.
int64_t seek_end(int descriptor);
bool cut_file(int descriptor, int64_t bytes);
// Until it is on the disk.
bool flush_file(int descriptor);
// The same for the names in a folder; a system that cannot does nothing.
void flush_folder(const std::string& path);

struct FileFacts {
  bool regular = false, folder = false;
  uint64_t bytes = 0;
  double used = 0, modified = 0;  // seconds ago
};
std::optional<FileFacts> facts_of(int descriptor);
// Of what a link names, or of the link itself.
std::optional<FileFacts> facts_of(const std::string& path, bool follow = true);
// Which file it is and its last change, another text for another content; "absent" where there is none.
std::string stamp_of(const std::string& path);
// It was read now, also where the file system does not note that by itself.
void note_use(int descriptor);

bool is_readable(const std::string& path);
bool is_executable(const std::string& path);

// In one step: `to` is the old file or the new one at every moment.
bool replace_file(const std::string& from, const std::string& to);
bool remove_file(const std::string& path);
// A new folder of that name and some letters; empty when it cannot be made.
std::string make_scratch_folder(const std::string& prefix);
// Names of entries, in no order, without "." and "..". The standard's iterators end the process where memory is short.
std::vector<std::string> list_folder(const std::string& folder, std::error_code& error);

enum class Lock { taken, busy, failed };
// For this process, until the descriptor is closed or the process ends; waits for nobody.
Lock lock_file(int descriptor);

}  // namespace heddle::os
