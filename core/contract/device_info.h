// Caps, DeviceInfo: facts about a device, as programs and schedules read them. Thread safety: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

// What kind of machine runs the kernels; picks defaults of tunables.
enum class DeviceClass : uint8_t { cpu, integrated_gpu, discrete_gpu, reference, null };
std::string_view name_of(DeviceClass c);

// How the lanes of a group run, which decides what a schedule gives to a lane and which defaults the tunables have.
// `cpu_loops`: one core walks over them in a loop that the driver wrote (PoCL, Intel's OpenCL on a CPU), so a kernel
// has one lane a group and writes its own loops and vectors. `cpu_lanes`: vector units of a core run them in lock-step
// (llvmpipe, through Vulkan and through OpenCL): each lane costs, shared arrays are slow. `simt`: a GPU, and devices
// that only stand in for one.
enum class Machine : uint8_t { cpu_loops, cpu_lanes, simt };
std::string_view name_of(Machine m);

// How a device takes kernels. `none`: it does not; core evaluates the op table instead (reference device). `c`: C99,
// for plans that are written as source (deploy/c_device.h); no device runs it.
enum class Target : uint8_t { none, glsl, opencl, cuda, c };
std::string_view name_of(Target t);

// Facts about a device, read once when it is opened.
struct Caps {
  DeviceClass device_class = DeviceClass::cpu;
  Target target = Target::none;
  uint32_t vendor_id = 0;  // PCI vendor, 0 when unknown
  uint32_t compute_units = 1;
  uint32_t subgroup_size = 1;      // lanes that run in lock-step; 1 when the API does not say
  uint32_t shared_bytes = 16384;   // per group
  uint32_t max_group_lanes = 128;  // lanes of one group, product of the three sizes
  uint32_t max_group[3] = {128, 128, 64};
  uint32_t max_groups[3] = {65535, 65535, 65535};
  uint32_t max_bindings = 8;                   // storage buffers of one kernel
  uint32_t buffer_alignment = 256;             // bytes; offsets of bindings are multiples of it
  uint64_t max_binding_bytes = 1ull << 27;     // largest range one binding may cover
  uint64_t max_allocation_bytes = 1ull << 30;  // largest single buffer
  uint64_t memory_bytes = 0;                   // 0 when unknown
  uint64_t max_loop_iterations =
      UINT64_MAX;                      // of all loops of one work item; llvmpipe ends loops in silence after 65535
  uint32_t max_loop_ops = UINT32_MAX;  // operations of one element that a loop over elements may hold in a fused kernel
  bool unified_memory = false;
  bool texel_loads = false;   // Vulkan: kernels read through texel buffers (llvmpipe, where loads from storage buffers
                              // are loops over the lanes)
  bool texel_images = false;  // with texel_loads: storage texel buffers, read by imageLoad; else uniform ones
  bool f16_arithmetic = false;  // storage of f16 and bf16 works everywhere
  bool f64 = false;             // f64 storage, + - * / and sqrt
  bool f64_math = false;        // exp, log, sin, ... in f64
  bool i64 = false;             // the dtype
  bool int8_dot = false;
  bool async = false;  // submit() returns before the work is done
  bool times = false;  // wait() of a timed recording gives device times
  uint32_t queues =
      1;  // over which a recording spreads commands that do not depend on each other; HEDDLE_QUEUES overrides
  bool uploads_beside = false;  // write_beside() copies while submissions run
  // What a Vulkan driver may lack. Kernels then see 32-bit words (core/dialect/print_options.h); dtypes are as before.
  bool storage8 = true;            // buffers of 8-bit elements
  bool storage16 = true;           // buffers of 16-bit elements
  bool i64_arithmetic = true;      // integers of 64 bits in registers
  uint32_t register_floats = 512;  // CPU: floats that a core's vector registers hold (AVX-512: 512; AVX2, NEON: 128)
  std::string matrix_units;        // e.g. "16x16x16 f16 f32"; empty when none
  uint32_t architecture = 0;       // CUDA: compute capability, 90 for 9.0
  uint64_t driver_hash = 0;        // changes with device, driver and its version: part of every disk-cache key
  uint64_t loader_hash = 0;        // driver_hash without the compiler that this program holds (NVRTC); 0: the same

  // What an image relies on.
  uint64_t image_hash() const { return loader_hash != 0 ? loader_hash : driver_hash; }

  // What the backend knows of the driver (core/contract/quirks.h); nothing where class and target tell it.
  std::optional<Machine> known_machine;

  // How lanes run. Caps that no backend filled are of a CPU's most common driver of that target: PoCL, lavapipe.
  Machine machine() const {
    if (known_machine) return *known_machine;
    if (device_class != DeviceClass::cpu) return Machine::simt;
    return target == Target::opencl ? Machine::cpu_loops : Machine::cpu_lanes;
  }
};

// What `heddle devices` shows of a device, present or absent.
struct DeviceInfo {
  std::string id;       // "opencl:0"
  std::string backend;  // "opencl"
  std::string name;     // "Intel(R) Xeon(R) Processor"
  std::string driver;   // "Portable Computing Language 3.1"
  bool available = false;
  std::string reason;  // why not, e.g. "libcuda.so.1 not found"; empty when available
  Caps caps;           // meaningful when available
};

}  // namespace heddle
