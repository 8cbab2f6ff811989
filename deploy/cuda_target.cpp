#include "heddle/deploy/cuda_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/similar.h"
#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/contract/vendors.h"
#include "heddle/deploy/planned_device.h"

namespace heddle {
namespace {

constexpr CudaArchitecture table[] = {
    {75, "GeForce RTX 2080 Ti", 68, 65536, 11},
    {80, "A100 SXM 40 GB", 108, 166912, 40},
    {86, "GeForce RTX 3090", 82, 101376, 24},
    {87, "Jetson AGX Orin", 16, 166912, 32, true},
    {89, "GeForce RTX 4090", 128, 101376, 24},
    {90, "H100 SXM", 132, 232448, 80},
    {100, "B200", 148, 232448, 180},
    {103, "B300", 148, 232448, 270},
    {110, "Jetson Thor", 20, 232448, 128, true},
    {120, "GeForce RTX 5090", 170, 101376, 32},
    {121, "GB10", 48, 101376, 128, true},
};

// A row of its own, or for one that the table has not the row of its generation that promises least.
std::optional<CudaArchitecture> facts_of(uint32_t sm) {
  std::optional<CudaArchitecture> found;
  for (const CudaArchitecture& row : table) {
    if (row.sm == sm) return row;
    if (row.sm / 10 == sm / 10 && (!found || row.shared < found->shared)) found = row;
  }
  if (found) found->sm = sm;
  return found;
}

const KernelCompiler& compiler() {
  const KernelCompiler* const nvrtc = builtin_compiler(Target::cuda);
  if (nvrtc == nullptr) throw DeviceUnavailable("[compile] this build has no backend for CUDA (HEDDLE_CUDA)");
  if (const std::string reason = nvrtc->absent(); !reason.empty())
    throw DeviceUnavailable(fmt::format("[compile] machine code for CUDA needs NVRTC: {}", reason));
  return *nvrtc;
}

std::string name_of(const CudaArchitecture& architecture) { return fmt::format("cuda:sm_{}", architecture.sm); }

DeviceContext& device_of(const CudaArchitecture& architecture) {
  static std::mutex mutex;
  static auto* const devices = new std::map<uint32_t, DeviceContext*>;  // leaked: what it points to stays
  const std::lock_guard lock(mutex);
  DeviceContext*& device = (*devices)[architecture.sm];
  if (device == nullptr) {
    DeviceInfo info;
    info.id = name_of(architecture);
    info.backend = "cuda";
    info.name = fmt::format("sm_{} ({})", architecture.sm, architecture.card);
    info.driver = fmt::format("planned, NVRTC {}", compiler().version());
    info.caps = cuda_caps(architecture);
    info.caps.driver_hash = hash_string(fmt::format("{}\n{}", info.name, info.driver));
    device = &planned_device(std::move(info));
  }
  return *device;
}

}  // namespace

std::span<const CudaArchitecture> cuda_architectures() { return table; }

Caps cuda_caps(const CudaArchitecture& architecture) {
  Caps caps;
  caps.device_class = architecture.integrated ? DeviceClass::integrated_gpu : DeviceClass::discrete_gpu;
  caps.target = Target::cuda;
  caps.vendor_id = vendors::nvidia;
  caps.compute_units = architecture.units;
  caps.subgroup_size = 32;
  caps.shared_bytes = architecture.shared;
  caps.max_group_lanes = caps.max_group[0] = caps.max_group[1] = 1024;
  caps.max_group[2] = 64;
  caps.max_groups[0] = 0x7fffffff;
  caps.max_bindings = 64;
  caps.buffer_alignment = 256;
  caps.memory_bytes = caps.max_allocation_bytes = caps.max_binding_bytes = architecture.memory_gib << 30;
  caps.unified_memory = architecture.integrated;
  caps.f16_arithmetic = caps.f64 = caps.f64_math = caps.i64 = caps.int8_dot = true;
  caps.async = caps.times = caps.uploads_beside = true;
  caps.queues = 2;
  if (architecture.sm >= 80)
    caps.matrix_units = "16x16x16 f16 f32; 16x16x16 bf16 f32; 16x16x8 tf32 f32; 16x16x32 i8 i32";
  if (architecture.sm / 10 == 9) caps.matrix_units += "; 64xNx16 f16 f32; 64xNx16 bf16 f32";
  caps.architecture = architecture.sm;
  return caps;
}

std::vector<CudaArchitecture> compiled_cuda_architectures() {
  std::vector<CudaArchitecture> found;
  const KernelCompiler* const nvrtc = builtin_compiler(Target::cuda);
  if (nvrtc == nullptr || !nvrtc->absent().empty()) return found;
  for (const uint32_t sm : nvrtc->architectures()) {
    if (const auto facts = facts_of(sm)) found.push_back(*facts);
  }
  return found;
}

DeviceContext& cuda_target(const std::string& name) {
  const std::string version = compiler().version();
  const std::vector<CudaArchitecture> known = compiled_cuda_architectures();
  for (const CudaArchitecture& architecture : known) {
    if (name_of(architecture) == name) return device_of(architecture);
  }
  std::vector<std::string> names;
  for (const CudaArchitecture& architecture : known) names.push_back(name_of(architecture));
  const std::vector<std::string_view> views(names.begin(), names.end());
  throw ValueError(fmt::format("[compile] there is no target '{}'; NVRTC {} makes code for {}{}", name, version,
                               fmt::join(names, ", "), did_you_mean(name, views)));
}

}  // namespace heddle
