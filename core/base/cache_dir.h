// The user's cache folder, and files in it that hold what a driver's compiler made.
//
// Purpose: a kernel compiled once on this machine is loaded from disk the next time. Files live in HEDDLE_CACHE_DIR, else
// $XDG_CACHE_HOME/heddle, else $HOME/.cache/heddle; HEDDLE_CACHE_DIR="" (set, but empty) turns the disk cache off.
// Invariants: a file is only used when its header (magic, format, owner, length and hash of identity and payload) fits, so
// a truncated, foreign or stale file is a miss, never a fault; files appear by rename, so readers never see half a file.
// A cache that cannot be read or written is silently absent: it is an optimisation.
// Thread safety: const functions may be called from any thread and from several processes at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// The folder, without a trailing slash; empty when there is none or the cache is turned off. Not created by this call.
std::string cache_dir();

class DiskCache {
 public:
  // `kind` names the sub-folder ("spirv", "opencl"); `owner` is Caps::driver_hash, or 0 for what every driver may share.
  DiskCache(std::string_view kind, uint64_t owner);

  // `identity` is everything that the result depends on: source text and compiler options.
  std::optional<std::vector<uint8_t>> load(std::string_view identity) const;
  void store(std::string_view identity, const void* data, size_t bytes) const;
  // The file that holds (or would hold) that identity; empty when the cache is off.
  std::string path(std::string_view identity) const;

 private:
  std::string folder_;  // empty: off
  uint64_t owner_;
};

}  // namespace heddle
