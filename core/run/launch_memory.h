// LaunchMemory: what the launchers of a device share: memory for temporaries, and page-locked memory.
//
// Purpose: each run takes an arena for as long as it submits: one by one while nothing comes between the segments of a
// run (the device's queue is in order, so what the next run writes there comes after all that this one reads), hence
// one arena in all; a run between whose segments the lock is let go keeps its own, and another thread takes the next.
// Invariants: a block of an arena is as large as the largest image needed; when a larger one takes its place, no
// launcher keeps a recording that is bound to the old one. Thread safety: used under the device's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/device/device_cache.h"

namespace heddle {

class HostBlock;

// Who keeps recordings that are bound to arenas: a launcher.
class ArenaUser {
 public:
  // Gives back the arena of that number, that recordings are bound to; the next run on it records anew. Under the
  // device's lock.
  virtual void forget_recordings(size_t arena) = 0;

 protected:
  ~ArenaUser() = default;
};

// Memory for temporaries, and page-locked memory for values that graphs offload; each block as large as the largest
// image asked for.
struct Arena {
  std::vector<StoragePtr> blocks;
  std::shared_ptr<HostBlock> host_block;
  bool taken = false;
};

// An arena while a run submits to it; gives it back at its end, under the device's lock.
class ArenaTurn {
 public:
  ArenaTurn(DeviceContext& device, Arena& arena, size_t number) : device_(device), arena_(&arena), number_(number) {
    arena.taken = true;
  }
  ~ArenaTurn();
  ArenaTurn(ArenaTurn&& other) noexcept
      : device_(other.device_), arena_(std::exchange(other.arena_, nullptr)), number_(other.number_) {}
  ArenaTurn& operator=(ArenaTurn&&) = delete;
  const std::vector<StoragePtr>& blocks() const { return arena_->blocks; }
  const std::shared_ptr<HostBlock>& host_block() const { return arena_->host_block; }
  // The same for the same arena, for as long as the device lives.
  size_t number() const { return number_; }

 private:
  DeviceContext& device_;
  Arena* arena_;
  size_t number_;
};

class LaunchMemory final : public DeviceCache {
 public:
  LaunchMemory();
  ~LaunchMemory() override;
  // The first arena that nobody has, with blocks of at least `bytes` and page-locked memory of `host_bytes`.
  ArenaTurn take_arena(DeviceContext& device, const std::vector<uint64_t>& bytes, uint64_t host_bytes);
  size_t arenas() const { return arenas_.size(); }
  // Who may hold recordings.
  void add(ArenaUser& user) { users_.push_back(&user); }
  void remove(ArenaUser& user) { std::erase(users_, &user); }

  void clear() override;
  uint64_t arena_bytes() const override;

 private:
  void grow(DeviceContext& device, size_t number, size_t block, uint64_t bytes);

  std::vector<ArenaUser*> users_;
  std::deque<Arena> arenas_;  // by number; none is ever removed
};
// The device's own; it is used under the device's lock.
LaunchMemory& launch_memory(DeviceContext& device);

}  // namespace heddle
