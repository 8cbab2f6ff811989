// LoadingDevice: a device that compiles by loading what the compiler of its target makes.
//
// Purpose: compile() is the same for every backend of the library: compiler, with its disk cache, then load_all().
// Invariants and thread safety: those of Device; compilers run on several threads.
#pragma once

#include "heddle/core/contract/device.h"

namespace heddle {

class LoadingDevice : public Device {
 public:
  KernelId compile(const KernelSource& source) override;
  std::vector<KernelId> compile_all(std::span<const KernelSource* const> sources) override;
  std::vector<KernelId> load_all(std::span<const KernelBinary* const> binaries) override = 0;
};

}  // namespace heddle
