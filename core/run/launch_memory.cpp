#include "heddle/core/run/launch_memory.h"

#include <algorithm>

#include "heddle/core/device/locked_device.h"
#include "heddle/core/run/replay.h"

namespace heddle {

LaunchMemory& launch_memory(DeviceContext& device) {
  const auto locked = device.lock();
  if (!device.cache(Kept::launches)) device.keep(Kept::launches, std::make_unique<LaunchMemory>());
  return static_cast<LaunchMemory&>(*device.cache(Kept::launches));  // nobody else keeps anything there
}

ArenaTurn::~ArenaTurn() {
  if (arena_ == nullptr) return;
  const auto locked = device_.lock();
  arena_->taken = false;
}

LaunchMemory::LaunchMemory() = default;
LaunchMemory::~LaunchMemory() = default;

ArenaTurn LaunchMemory::take_arena(DeviceContext& device, const std::vector<uint64_t>& bytes, uint64_t host_bytes) {
  size_t number = 0;
  while (number < arenas_.size() && arenas_[number].taken) ++number;
  if (number == arenas_.size()) arenas_.emplace_back();
  Arena& arena = arenas_[number];
  ArenaTurn turn(device, arena, number);
  std::vector<StoragePtr> kept;  // by this run, should this be cleared meanwhile
  for (size_t b = 0; b < bytes.size(); ++b) {
    if (b < arena.blocks.size() && arena.blocks[b] && arena.blocks[b]->bytes() >= bytes[b]) continue;
    kept.assign(arena.blocks.begin(),
                arena.blocks.begin() + static_cast<std::ptrdiff_t>(std::min(b, arena.blocks.size())));
    grow(device, number, b, bytes[b]);
  }
  if (host_bytes > 0 && (!arena.host_block || arena.host_block->bytes() < host_bytes)) {
    arena.host_block.reset();
    arena.host_block = std::make_shared<HostBlock>(device, host_bytes);
  }
  return turn;
}

void LaunchMemory::grow(DeviceContext& device, size_t number, size_t block, uint64_t bytes) {
  std::vector<StoragePtr>& blocks = arenas_[number].blocks;
  if (blocks.size() > block && blocks[block]) {  // the larger one takes its place: nobody may keep it
    blocks[block].reset();
    for (ArenaUser* user : users_) user->forget_recordings(number);
  }
  StoragePtr made = device.allocate(bytes);  // may clear() this, when memory is short
  if (blocks.size() <= block) blocks.resize(block + 1);
  blocks[block] = std::move(made);
}

// Recordings stay: a launcher that is about to submit one may be what ran short of memory.
void LaunchMemory::clear() {
  for (Arena& arena : arenas_) {
    for (StoragePtr& block : arena.blocks) {
      if (!arena.taken || block.use_count() == 1) block.reset();  // else a run submits to it
    }
    if (!arena.taken) arena.host_block.reset();
  }
}

uint64_t LaunchMemory::arena_bytes() const {
  uint64_t sum = 0;
  for (const Arena& arena : arenas_) {
    for (const StoragePtr& block : arena.blocks) sum += block ? block->bytes() : 0;
  }
  return sum;
}

}  // namespace heddle
