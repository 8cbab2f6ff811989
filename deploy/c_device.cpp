#include "heddle/deploy/c_device.h"

#include "heddle/core/base/hash.h"
#include "heddle/deploy/planned_device.h"

namespace heddle {
namespace {

Caps c_caps() {
  Caps caps;
  caps.device_class = DeviceClass::cpu;
  caps.target = Target::c;
  caps.known_machine = Machine::cpu_loops;
  caps.shared_bytes = 65536;
  caps.max_group_lanes = 1024;
  caps.max_group[0] = caps.max_group[1] = caps.max_group[2] = 1024;
  caps.max_groups[0] = caps.max_groups[1] = caps.max_groups[2] = 0x7fffffff;
  caps.max_bindings = 64;
  caps.buffer_alignment = 64;
  caps.max_binding_bytes = caps.max_allocation_bytes = uint64_t{1} << 40;
  caps.unified_memory = true;
  caps.f64 = caps.f64_math = caps.i64 = true;
  caps.driver_hash = hash_string("heddle c 1");
  return caps;
}

}  // namespace

DeviceContext& c_device() {
  static DeviceContext& context =
      planned_device({.id = "c:0", .backend = "c", .name = "C99", .driver = "none", .reason = "", .caps = c_caps()});
  return context;
}

}  // namespace heddle
