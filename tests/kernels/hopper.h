// The capabilities of an H100 or H200, for what is picked and compiled for one where none is.
#pragma once

#include "heddle/core/contract/device_info.h"
#include "heddle/core/contract/vendors.h"

namespace heddle {

inline Caps hopper() {
  Caps caps;
  caps.device_class = DeviceClass::discrete_gpu;
  caps.target = Target::cuda;
  caps.vendor_id = vendors::nvidia;
  caps.compute_units = 132;
  caps.subgroup_size = 32;
  caps.shared_bytes = 232448;
  caps.max_group_lanes = 1024;
  caps.matrix_units =
      "16x16x16 f16 f32; 16x16x16 bf16 f32; 16x16x8 tf32 f32; 16x16x32 i8 i32; "
      "64xNx16 f16 f32; 64xNx16 bf16 f32";
  return caps;
}

}  // namespace heddle
