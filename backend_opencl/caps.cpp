#include "heddle/backend_opencl/caps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "heddle/backend_opencl/core_units.h"
#include "heddle/backend_opencl/status.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/system/processor.h"
#include "heddle/core/device/driver_probe.h"
#include "heddle/core/dialect/print_options.h"

namespace heddle::opencl {
namespace {

// Vendor extensions whose tokens stand in no core header.
constexpr cl_device_info device_warp_size_nv = 0x4003;
constexpr cl_device_info device_wavefront_width_amd = 0x4043;
constexpr cl_device_info device_sub_group_sizes_intel = 0x4108;

template <class T>
T number(cl_device_id device, cl_device_info what, T fallback = T{}) {
  T value{};
  return cl().GetDeviceInfo(device, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : fallback;
}

std::string text(cl_device_id device, cl_device_info what) {
  size_t bytes = 0;
  if (cl().GetDeviceInfo(device, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string value(bytes, '\0');
  if (cl().GetDeviceInfo(device, what, bytes, value.data(), nullptr) != CL_SUCCESS) return {};
  value.resize(value.find('\0') == std::string::npos ? bytes : value.find('\0'));
  return value;
}

std::string text(cl_platform_id platform, cl_platform_info what) {
  size_t bytes = 0;
  if (cl().GetPlatformInfo(platform, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string value(bytes, '\0');
  if (cl().GetPlatformInfo(platform, what, bytes, value.data(), nullptr) != CL_SUCCESS) return {};
  value.resize(value.find('\0') == std::string::npos ? bytes : value.find('\0'));
  return value;
}

// "OpenCL 3.0 PoCL ..." or "OpenCL C 1.2 ..." -> 300, 120; 100 when the text has another form.
int version_of(const std::string& value, const char* format) {
  int major = 1, minor = 0;
  if (std::sscanf(value.c_str(), format, &major, &minor) != 2) return 100;
  return major * 100 + minor * 10;
}

bool has_extension(const std::string& list, std::string_view name) {
  for (size_t at = list.find(name); at != std::string::npos; at = list.find(name, at + 1)) {
    size_t end = at + name.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

uint32_t clamp32(uint64_t value) { return static_cast<uint32_t>(std::min<uint64_t>(value, 0x7fffffff)); }

DeviceClass class_of(cl_device_id device) {
  auto type = number<cl_device_type>(device, CL_DEVICE_TYPE);
  if (type & CL_DEVICE_TYPE_CPU) return DeviceClass::cpu;
  return number<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY) ? DeviceClass::integrated_gpu
                                                                : DeviceClass::discrete_gpu;
}

uint32_t subgroup_size(cl_device_id device, const std::string& extensions) {
  if (has_extension(extensions, "cl_nv_device_attribute_query")) return number<cl_uint>(device, device_warp_size_nv, 1);
  if (has_extension(extensions, "cl_amd_device_attribute_query")) {
    return number<cl_uint>(device, device_wavefront_width_amd, 1);
  }
  if (has_extension(extensions, "cl_intel_required_subgroup_size")) {
    size_t sizes[16] = {};
    size_t bytes = 0;
    if (cl().GetDeviceInfo(device, device_sub_group_sizes_intel, sizeof sizes, sizes, &bytes) == CL_SUCCESS &&
        bytes > 0) {
      return static_cast<uint32_t>(sizes[0]);
    }
  }
  return 1;  // a CPU driver, or an API that does not say
}

void read_limits(cl_device_id device, Caps& caps) {
  caps.compute_units = number<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS, 1);
  caps.shared_bytes = clamp32(number<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE, 16384));
  caps.max_group_lanes = clamp32(number<size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1));
  size_t sizes[8] = {1, 1, 1};
  cl().GetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, nullptr);
  for (int axis = 0; axis < 3; ++axis) {
    caps.max_group[axis] = clamp32(sizes[axis]);
    caps.max_groups[axis] = 0x7fffffff;  // the API sets no limit; the dialect's indices are 32 bits
  }
  // Each buffer takes a pointer and a ulong of the argument space, of which the constants may need 128 bytes.
  size_t arguments = number<size_t>(device, CL_DEVICE_MAX_PARAMETER_SIZE, 256);
  caps.max_bindings = static_cast<uint32_t>(std::clamp<size_t>((std::max<size_t>(arguments, 256) - 128) / 16, 8, 64));
  uint32_t base_align = number<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024) / 8;
  caps.buffer_alignment = std::max<uint32_t>(256, base_align);
  caps.max_allocation_bytes = number<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, cl_ulong{1} << 27);
  caps.max_binding_bytes = caps.max_allocation_bytes;
  caps.memory_bytes = number<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
}

Caps caps_of(cl_device_id device, const std::string& identity) {
  Caps caps;
  std::string extensions = text(device, CL_DEVICE_EXTENSIONS);
  caps.device_class = class_of(device);
  caps.target = Target::opencl;
  caps.vendor_id = number<cl_uint>(device, CL_DEVICE_VENDOR_ID);
  caps.subgroup_size = subgroup_size(device, extensions);
  caps.unified_memory = number<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY) != CL_FALSE;
  if (caps.device_class == DeviceClass::cpu) caps.register_floats = os::vector_register_floats();
  caps.f16_arithmetic = has_extension(extensions, "cl_khr_fp16");
  caps.f64 =
      has_extension(extensions, "cl_khr_fp64") || number<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  caps.f64_math = caps.f64;
  caps.i64 = true;  // part of the full profile
  caps.int8_dot = has_extension(extensions, "cl_khr_integer_dot_product");
  caps.async = caps.times = caps.uploads_beside = true;
  caps.driver_hash = hash_string(identity);
  read_limits(device, caps);
  return caps;
}

// What the driver says of itself is not all, and not all of it is so (core/contract/quirks.h).
void apply(const Quirks& quirks, Caps& caps) {
  // A CPU driver that nobody has met gets the kernels that every compiler is through with soon.
  if (caps.device_class == DeviceClass::cpu) caps.known_machine = Machine::cpu_lanes;
  if (quirks.has(Quirk::lanes_are_loops)) caps.known_machine = Machine::cpu_loops;
  if (quirks.has(Quirk::lanes_are_vectors)) caps.known_machine = Machine::cpu_lanes;
  if (quirks.has(Quirk::loops_end_early)) caps.max_loop_iterations = 65535;
  if (quirks.has(Quirk::units_not_counted)) caps.compute_units = std::max(1u, std::thread::hardware_concurrency());
  if (quirks.has(Quirk::runs_at_once)) caps.async = caps.uploads_beside = false;
}

Found describe(cl_platform_id platform, cl_device_id device, size_t index) {
  Found found;
  found.platform = platform;
  found.device = device;
  std::string version = text(device, CL_DEVICE_VERSION), c_version = text(device, CL_DEVICE_OPENCL_C_VERSION);
  std::string driver = text(device, CL_DRIVER_VERSION), platform_name = text(platform, CL_PLATFORM_NAME);
  found.version = version_of(version, "OpenCL %d.%d");
  found.c_version = version_of(c_version, "OpenCL C %d.%d");
  DeviceInfo& info = found.info;
  info.id = fmt::format("opencl:{}", index);
  info.backend = "opencl";
  info.name = text(device, CL_DEVICE_NAME);
  info.driver = fmt::format("{} {}", platform_name, driver);
  if (!number<cl_bool>(device, CL_DEVICE_AVAILABLE)) {
    info.reason = "the driver reports the device as not available";
  } else if (!number<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE)) {
    info.reason = "the driver has no compiler for OpenCL C";
  } else if (found.version < 120) {
    info.reason = fmt::format("the device speaks '{}'; OpenCL 1.2 is needed", version);
  } else if (!number<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE)) {
    info.reason = "the device is big-endian";
  }
  info.available = info.reason.empty();
  if (info.available) {
    std::string identity;
    for (const std::string& part : {platform_name, text(platform, CL_PLATFORM_VERSION), info.name,
                                    text(device, CL_DEVICE_VENDOR), version, c_version, driver}) {
      identity += part + "\n";
    }
    info.caps = caps_of(device, identity);
    found.quirks = Quirks(info);
    apply(found.quirks, info.caps);
    // A binary for these units is not one for a machine of that name without them.
    const CoreUnits units = info.caps.machine() == Machine::cpu_loops
                                ? reached_core_units(platform, device, info.caps.driver_hash)
                                : CoreUnits::none;
    if (units != CoreUnits::none) {
      info.caps.matrix_units = units == CoreUnits::tiles ? core_tiles_bf16 : core_pairs_bf16;
      info.caps.driver_hash = hash_string(identity + info.caps.matrix_units);
    }
    if (found.quirks.has(Quirk::computes_wrong) && !std::getenv("HEDDLE_REFUSED_DRIVERS")) {
      info.available = false;
      info.reason = fmt::format(
          "{} on {} computes wrong values (see `heddle devices --quirks`); lavapipe does not "
          "(Debian mesa-vulkan-drivers)",
          info.driver, info.name);
    }
  }
  return found;
}

struct Answer {
  std::vector<Found> devices;
  std::string absent;
};

std::vector<cl_device_id> devices_of(cl_platform_id platform) {
  cl_uint count = 0;
  if (cl().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
  std::vector<cl_device_id> devices(count);
  if (cl().GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr) != CL_SUCCESS) return {};
  return devices;
}

// The folder in which the loader looked.
std::string absent_driver() {
  const char* folder = std::getenv("OCL_ICD_VENDORS");
  if (!folder || *folder == '\0')
    return "libOpenCL.so.1 found, but no driver (ICD) is installed in /etc/OpenCL/vendors";
  return fmt::format("libOpenCL.so.1 found, but no driver (ICD) in {}, which OCL_ICD_VENDORS names", folder);
}

Answer ask() {
  Answer answer;
  if (!try_cl(&answer.absent)) return answer;
  answer.absent = driver_fault("opencl");
  if (!answer.absent.empty()) return answer;
  cl_uint count = 0;
  cl_int status = cl().GetPlatformIDs(0, nullptr, &count);
  if (status != CL_SUCCESS || count == 0) {
    answer.absent = absent_driver();
    if (status != CL_SUCCESS && status != -1001) answer.absent = "clGetPlatformIDs: " + status_text(status);
    return answer;
  }
  std::vector<cl_platform_id> platforms(count);
  cl().GetPlatformIDs(count, platforms.data(), nullptr);
  for (cl_platform_id platform : platforms) {
    for (cl_device_id device : devices_of(platform)) {
      answer.devices.push_back(describe(platform, device, answer.devices.size()));
    }
  }
  if (answer.devices.empty()) answer.absent = "the installed OpenCL drivers report no device";
  return answer;
}

}  // namespace

const std::vector<Found>& find_devices(std::string* absent) {
  static const Answer* const answer = new Answer(ask());
  if (absent) *absent = answer->absent;
  return answer->devices;
}

}  // namespace heddle::opencl
