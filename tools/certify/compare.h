// The static model against a device that is at hand: one matrix product in many schedules, predicted and measured.
//
// Purpose: says whether the model orders schedules as the device does (Spearman's rank correlation), which is all that
// choosing among them needs. Invariants: the schedules are the same on every device that takes them. Errors:
// ValueError for a device whose family is not in the table. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/dialect/kernel_file.h"
#include "tools/certify/compilers.h"

namespace heddle::tools::certify {

// At most `count` schedules with shared tiles of shaders/matmul.hk, spread over their sizes, that such a device takes.
std::vector<Bindings> compared_schedules(const Caps& caps, size_t count);

// The row of gpu_families() that a device belongs to: its NVIDIA architecture, else the one that `arch` names.
const GpuFamily& family_of(const Caps& caps, const std::string& arch);

struct Compared {
  std::string schedule;  // "TM=64 TN=64 TK=16 RM=4 RN=4"
  double predicted = 0;  // fraction of the peak of f32 multiply-adds
  double seconds = 0;    // measured
  double fraction = 0;   // of that peak, measured; of the family's card, so a factor that all share may be off
  int64_t spill_bytes = 0;
};
// n x n x n in f32 on `device`; the model is asked about the same kernel, compiled for `family`.
Compared compare(VendorCompiler& compiler, const GpuFamily& family, DeviceContext& device, const Bindings& tunables,
                 int64_t n);

}  // namespace heddle::tools::certify
