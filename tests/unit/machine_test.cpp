// The machine model is what a backend says; else it follows from a device's class and target.
#include <gtest/gtest.h>

#include "heddle/core/contract/device_info.h"

namespace heddle {
namespace {

Machine machine_of(DeviceClass device_class, Target target) {
  Caps caps;
  caps.device_class = device_class;
  caps.target = target;
  return caps.machine();
}

TEST(MachineModel, OfACpuFollowsFromItsTarget) {
  EXPECT_EQ(machine_of(DeviceClass::cpu, Target::opencl), Machine::cpu_loops);
  EXPECT_EQ(machine_of(DeviceClass::cpu, Target::glsl), Machine::cpu_lanes);
}

TEST(MachineModel, IsWhatTheBackendSays) {
  Caps caps;
  caps.device_class = DeviceClass::cpu;
  caps.target = Target::opencl;
  caps.known_machine = Machine::cpu_lanes;
  EXPECT_EQ(caps.machine(), Machine::cpu_lanes);
}

TEST(MachineModel, OfEverythingElseIsSimt) {
  for (const DeviceClass c :
       {DeviceClass::integrated_gpu, DeviceClass::discrete_gpu, DeviceClass::null, DeviceClass::reference}) {
    for (const Target t : {Target::none, Target::glsl, Target::opencl, Target::cuda})
      EXPECT_EQ(machine_of(c, t), Machine::simt);
  }
}

}  // namespace
}  // namespace heddle
