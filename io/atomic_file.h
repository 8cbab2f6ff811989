// Files that appear whole or not at all.
//
// Purpose: a reader, or the next run after a crash, never meets half a file. The bytes go to a temporary file in the
// same folder, are forced to the disk, and take the name by rename. Errors: IoError with path and the system's reason;
// the temporary file is removed. Thread safety: independent calls may run at once, also on one path (the last rename
// wins).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

struct FilePart {
  const void* data = nullptr;
  size_t bytes = 0;
};

// A file that is written piece by piece; without publish() nothing of it stays.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const FilePart& part);
  // Forces the bytes to the disk and gives the file its name. Once, at the end.
  void publish();

 private:
  std::string target_, name_;
  int descriptor_ = -1;
  bool renamed_ = false;
};

// The parts, one after the other.
void write_file_atomically(const std::string& path, std::span<const FilePart> parts);
void write_file_atomically(const std::string& path, std::string_view text);

// The name of the file that this unfinished one ("<name>.tmp-<process>-<number>") was to become; empty for any other.
std::string_view finished_name(std::string_view name);

// Removes what processes that were ended in the middle of writing left in a folder, of all files or of those whose
// names are `mine`; nobody may be writing there.
void remove_unfinished(const std::string& folder, bool (*mine)(std::string_view name) = nullptr);

// Creates the folder (and its parents) if missing, and makes sure that a file can be written in it.
void require_writable_folder(const std::string& folder);

}  // namespace heddle
