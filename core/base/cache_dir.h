// The user's cache folder, and files in it that hold what a driver's compiler made.
//
// Purpose: a kernel compiled once on this machine is loaded from disk the next time. Files live in HEDDLE_CACHE_DIR,
// else $XDG_CACHE_HOME/heddle, else $HOME/.cache/heddle (on Windows %LOCALAPPDATA%/heddle); HEDDLE_CACHE_DIR="" (set,
// but empty) turns the disk cache off.
// Invariants: a file is only used when its header (magic, format, Heddle's version, owner, length and hash of identity
// and payload) fits, so a truncated, foreign or stale file is a miss and is replaced, never a fault; files appear by
// rename, so readers never see half a file. The folder stays below HEDDLE_CACHE_MB megabytes (default 1024): the least
// recently used files go first. That a folder cannot be written is said once per process, on stderr, and it goes on
// without: it is an optimisation. Thread safety: const functions may be called from any thread and from several
// processes at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// The folder, without a trailing slash; empty when there is none or the cache is turned off. Not created by this call.
std::string cache_dir();
// The most bytes the folder may hold: HEDDLE_CACHE_MB, else 1024 MB.
uint64_t cache_limit_bytes();

class DiskCache {
 public:
  // `kind` names the sub-folder ("spirv", "opencl"); `owner` is Caps::driver_hash, or 0 for what every driver may
  // share.
  DiskCache(std::string_view kind, uint64_t owner);

  // `identity` is everything that the result depends on: source text and compiler options. A hit counts as a use.
  std::optional<std::vector<uint8_t>> load(std::string_view identity) const;
  // `label` (a kernel's name) is what `heddle cache list` shows.
  void store(std::string_view identity, const void* data, size_t bytes, std::string_view label = {}) const;
  // The file that holds (or would hold) that identity; empty when the cache is off.
  std::string path(std::string_view identity) const;

 private:
  std::string root_;  // empty: off
  std::string folder_;
  uint64_t owner_;
};

}  // namespace heddle
