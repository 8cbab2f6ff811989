// SavedLaunch: one launch of a kernel, on disk, so that it can be repeated alone and by another process.
//
// Purpose: every verbose line about a kernel ends with a command that runs just this kernel (`heddle bench kernel
// --cases ID`). What is kept: the source, the launch, which bindings overlap, and the table of a launch over joined
// rows. Contents of tensors are not: floats are filled with random numbers, integers with zeros, so a kernel that
// follows indices (take, segment_add) meets the same one everywhere and may run at another speed. Files lie in the disk
// cache under "launch"; they go when the cache is trimmed, and another version of Heddle does not read them. Thread
// safety: pure functions but for the disk.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/inspect/kernel_facts.h"

namespace heddle {

struct SavedLaunch {
  // A range of one of `blocks`; ranges of a block overlap, different blocks are different memory.
  struct Range {
    uint64_t block = 0, offset = 0, size = 0;
    bool operator==(const Range&) const = default;
  };
  KernelSource source;
  uint32_t groups[3] = {1, 1, 1};
  std::vector<uint32_t> constants;
  std::vector<uint64_t> blocks;  // bytes
  std::vector<Range> bindings;
  std::vector<int32_t> table;  // contents of the last binding, where it is a table of joined rows; else empty
  std::string ops;
  double bytes = 0, flops = 0;
};

// Keeps it; returns its id, sixteen hexadecimal digits, or "" when there is no disk cache.
std::string save_launch(const KernelSource& source, const Dispatch& dispatch, std::span<const int32_t> table,
                        const KernelFacts& facts);
// Nothing when it was never kept, or is gone.
std::optional<SavedLaunch> load_launch(const std::string& id);
// The command that repeats it: "heddle bench kernel --cases ID --device opencl:0"; for an empty id, why there is none.
std::string repeat_command(const std::string& id, const std::string& device);

// Fresh memory for the launch, filled, and the dispatch over it.
struct RestoredLaunch {
  Dispatch dispatch;
  std::vector<StoragePtr> memory;
};
RestoredLaunch restore_launch(const SavedLaunch& saved, DeviceContext& device);

}  // namespace heddle
