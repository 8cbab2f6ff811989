#include "heddle/backend_cuda/caps.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/hash.h"
#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/contract/vendors.h"

namespace heddle::cuda {
namespace {

constexpr uint64_t parameter_bytes = 4096;  // of one launch, on every architecture

int attribute(CUdevice device, CUdevice_attribute what, int fallback = 0) {
  int value = 0;
  return cu().DeviceGetAttribute(&value, what, device) == CUDA_SUCCESS ? value : fallback;
}

uint32_t positive(CUdevice device, CUdevice_attribute what, int fallback) {
  return static_cast<uint32_t>(std::max(1, attribute(device, what, fallback)));
}

Caps caps_of(CUdevice device, int sm, const std::string& identity) {
  Caps caps;
  caps.device_class =
      attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED) ? DeviceClass::integrated_gpu : DeviceClass::discrete_gpu;
  caps.target = Target::cuda;
  caps.vendor_id = vendors::nvidia;
  caps.compute_units = positive(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1);
  caps.subgroup_size = positive(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32);
  // What a kernel may opt in to; above 48 KiB its shared arrays are dynamic (core/dialect/printer.h).
  caps.shared_bytes = std::max(positive(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152),
                               positive(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 1));
  caps.max_group_lanes = positive(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024);
  caps.max_group[0] = positive(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024);
  caps.max_group[1] = positive(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024);
  caps.max_group[2] = positive(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64);
  caps.max_groups[0] = positive(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff);
  caps.max_groups[1] = positive(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535);
  caps.max_groups[2] = positive(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535);
  caps.max_bindings = static_cast<uint32_t>(std::min<uint64_t>(64, (parameter_bytes - 128) / sizeof(CUdeviceptr)));
  caps.buffer_alignment = 256;
  size_t total = 0;
  if (cu().DeviceTotalMem(&total, device) == CUDA_SUCCESS) caps.memory_bytes = total;
  caps.max_allocation_bytes = caps.memory_bytes ? caps.memory_bytes : caps.max_allocation_bytes;
  caps.max_binding_bytes = caps.max_allocation_bytes;
  caps.unified_memory = caps.device_class == DeviceClass::integrated_gpu;
  caps.f16_arithmetic = sm >= 53;
  caps.f64 = caps.f64_math = caps.i64 = true;
  caps.async = caps.times = caps.uploads_beside = true;
  caps.queues = 2;
  caps.int8_dot = sm >= 61;
  if (sm >= 80) {  // what the MMA macros of shaders/prelude.cu are written for
    caps.matrix_units = "16x16x16 f16 f32; 16x16x16 bf16 f32; 16x16x8 tf32 f32; 16x16x32 i8 i32";
  }
  caps.architecture = static_cast<uint32_t>(sm);
  caps.driver_hash = hash_string(identity);
  return caps;
}

Found describe(CUdevice device, int index) {
  Found found;
  found.device = device;
  found.sm = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
             attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  DeviceInfo& info = found.info;
  info.id = fmt::format("cuda:{}", index);
  info.backend = "cuda";
  char name[256] = {};
  if (cu().DeviceGetName(name, sizeof name - 1, device) == CUDA_SUCCESS) info.name = name;
  int version = cu().version;
  info.driver = fmt::format("CUDA {}.{}, sm_{}", version / 1000, version % 1000 / 10, found.sm);
  const KernelCompiler* compiler = builtin_compiler(Target::cuda);  // null: the program only loads kernels
  if (compiler != nullptr) info.reason = compiler->absent();
  if (info.reason.empty() && attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED)
    info.reason = "the device is set to compute mode 'prohibited'";
  if (info.reason.empty()) {
    info.available = true;
    const std::string identity = fmt::format("{}\n{}", info.name, info.driver);
    const std::string with_compiler = compiler ? fmt::format("{}\nnvrtc {}", identity, compiler->version()) : identity;
    info.caps = caps_of(device, found.sm, with_compiler);
    info.caps.loader_hash = hash_string(identity);
    // Instructions of 9.0 alone, which NVRTC knows from 12.0 on; a program without it loads what another one compiled.
    if (found.sm / 10 == 9 && (compiler == nullptr || !compiler->version().starts_with("11.")))
      info.caps.matrix_units += "; 64xNx16 f16 f32; 64xNx16 bf16 f32";
  }
  return found;
}

struct Answer {
  std::vector<Found> devices;
  std::string absent;
};

Answer ask() {
  Answer answer;
  if (!try_cu(&answer.absent)) return answer;
  int count = 0;
  CUresult result = cu().DeviceGetCount(&count);
  for (int i = 0; result == CUDA_SUCCESS && i < count; ++i) {
    CUdevice device = 0;
    result = cu().DeviceGet(&device, i);
    if (result == CUDA_SUCCESS) answer.devices.push_back(describe(device, i));
  }
  if (result != CUDA_SUCCESS) answer.absent = "the driver does not list its devices: " + result_text(result);
  if (result == CUDA_SUCCESS && count == 0) answer.absent = "libcuda.so.1 found, but the driver reports no device";
  return answer;
}

}  // namespace

const std::vector<Found>& find_devices(std::string* absent) {
  static const Answer* const answer = new Answer(ask());
  if (absent) *absent = answer->absent;
  return answer->devices;
}

}  // namespace heddle::cuda
