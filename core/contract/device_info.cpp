#include "heddle/core/contract/device_info.h"

namespace heddle {

std::string_view name_of(DeviceClass c) {
  switch (c) {
    case DeviceClass::cpu:
      return "cpu";
    case DeviceClass::integrated_gpu:
      return "integrated_gpu";
    case DeviceClass::discrete_gpu:
      return "discrete_gpu";
    case DeviceClass::reference:
      return "reference";
    case DeviceClass::null:
      return "null";
  }
  return "unknown";
}

std::string_view name_of(Machine m) {
  switch (m) {
    case Machine::cpu_loops:
      return "cpu_loops";
    case Machine::cpu_lanes:
      return "cpu_lanes";
    case Machine::simt:
      return "simt";
  }
  return "unknown";
}

std::string_view name_of(Target t) {
  switch (t) {
    case Target::none:
      return "none";
    case Target::glsl:
      return "glsl";
    case Target::opencl:
      return "opencl";
    case Target::cuda:
      return "cuda";
    case Target::c:
      return "c";
  }
  return "unknown";
}

}  // namespace heddle
