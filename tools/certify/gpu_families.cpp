// The table of GPU families. Sources, by vendor:
//   NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and "Throughput of Native
//     Arithmetic Instructions"; the architecture whitepapers of Turing, Ampere (A100), Hopper (H100), Blackwell.
//   AMD: GCN3, Vega, RDNA 2 and RDNA 3 instruction set architecture guides; "RDNA Performance Guide"; cards' data
//   sheets. Intel: "The Compute Architecture of Intel Processor Graphics Gen9"; oneAPI GPU Optimization Guide, "Intel
//   Xe GPU
//     Architecture"; cards' data sheets. Of an EU, shared memory and cache are the subslice's divided by its EUs.
// Figures that no vendor publishes (latencies, bytes of shared memory a clock on Intel) are microbenchmarks' common
// ones; the model of this folder says what depends on them.
#include "tools/certify/gpu_families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/similar.h"
#include "heddle/core/contract/vendors.h"
#include "heddle/deploy/cuda_target.h"

namespace heddle::tools::certify {
namespace {

constexpr uint64_t gib = 1ull << 30;
constexpr std::string_view vendor_names[] = {"nvidia", "amd", "intel"};

// What all GPUs of the table have in common.
Caps common_caps(DeviceClass device_class, Target target, uint32_t vendor_id, uint64_t memory) {
  Caps caps;
  caps.device_class = device_class;
  caps.target = target;
  caps.vendor_id = vendor_id;
  caps.buffer_alignment = 256;
  caps.max_bindings = 64;
  caps.memory_bytes = memory;
  caps.max_allocation_bytes = caps.max_binding_bytes = std::min(memory, 4 * gib - 1);
  caps.unified_memory = device_class == DeviceClass::integrated_gpu;
  caps.f16_arithmetic = caps.i64 = caps.async = caps.times = true;
  return caps;
}

// Of the table that images are planned by; a range of memory as with the other vendors.
GpuFamily nvidia(uint32_t sm, double clock, double bandwidth) {
  const std::span<const CudaArchitecture> all = cuda_architectures();
  const CudaArchitecture& row = *std::ranges::find(all, sm, &CudaArchitecture::sm);
  GpuFamily f;
  f.vendor = Vendor::nvidia;
  f.arch = fmt::format("sm_{}", sm);
  f.card = row.card;
  f.caps = cuda_caps(row);
  f.caps.max_allocation_bytes = f.caps.max_binding_bytes = std::min(f.caps.memory_bytes, 4 * gib - 1);
  f.clock_hz = clock;
  f.memory_bytes_per_s = bandwidth;
  return f;
}

// As backend_vulkan/physical.cpp reads them of RADV 22.3, which has no matrix units; a workgroup may take 64 KiB, and
// compute subgroups have 64 lanes on RDNA too.
GpuFamily amd(const char* arch, const char* card, uint32_t units, uint64_t memory, double clock, double bandwidth,
              bool packed_f16, bool dot) {
  GpuFamily f;
  f.vendor = Vendor::amd;
  f.arch = arch;
  f.card = card;
  f.caps = common_caps(DeviceClass::discrete_gpu, Target::glsl, vendors::amd, memory);
  f.caps.compute_units = units;
  f.caps.subgroup_size = f.compiled_lanes = 64;
  f.caps.shared_bytes = 65536;
  f.caps.max_group_lanes = f.caps.max_group[0] = f.caps.max_group[1] = f.caps.max_group[2] = 1024;
  f.caps.buffer_alignment = 16;
  f.caps.f16_arithmetic = packed_f16;
  f.caps.f64 = true;
  f.caps.int8_dot = dot;
  f.clock_hz = clock;
  f.memory_bytes_per_s = bandwidth;
  return f;
}

// As backend_opencl/caps.cpp reads them of Intel's compute runtime: a compute unit is an EU, and the subgroup size the
// smallest of those that it lists.
GpuFamily intel(const char* arch, const char* card, DeviceClass device_class, uint32_t units, uint32_t lanes,
                uint32_t most_lanes, uint64_t memory, double clock, double bandwidth, bool f64) {
  GpuFamily f;
  f.vendor = Vendor::intel;
  f.arch = arch;
  f.card = card;
  f.caps = common_caps(device_class, Target::opencl, vendors::intel, memory);
  f.caps.compute_units = units;
  f.caps.subgroup_size = lanes;
  f.caps.shared_bytes = 65536;
  f.caps.max_group_lanes = f.caps.max_group[0] = f.caps.max_group[1] = f.caps.max_group[2] = most_lanes;
  for (uint32_t& most : f.caps.max_groups) most = 0x7fffffff;
  f.caps.f64 = f.caps.f64_math = f64;
  f.caps.uploads_beside = true;
  f.clock_hz = clock;
  f.memory_bytes_per_s = bandwidth;
  return f;
}

std::vector<GpuFamily> nvidia_families() {
  std::vector<GpuFamily> table = {
      nvidia(75, 1.545e9, 616e9),   nvidia(80, 1.41e9, 1555e9),   nvidia(90, 1.83e9, 3350e9),
      nvidia(100, 1.965e9, 8000e9), nvidia(120, 2.407e9, 1792e9),
  };
  table[0].rates = {.matrix_f16 = 512, .max_subgroups = 32, .max_groups = 16, .shared_total = 65536};
  table[1].rates = {.matrix_f16 = 1024, .max_subgroups = 64, .max_groups = 32, .shared_total = 167936};
  table[2].rates = {
      .fma_lanes = 128, .matrix_f16 = 2048, .max_subgroups = 64, .max_groups = 32, .shared_total = 233472};
  table[3].rates = {
      .fma_lanes = 128, .matrix_f16 = 4096, .max_subgroups = 64, .max_groups = 32, .shared_total = 233472};
  table[4].rates = {.fma_lanes = 128, .matrix_f16 = 512, .max_subgroups = 48, .max_groups = 24, .shared_total = 102400};
  for (size_t i = 1; i < table.size(); ++i) table[i].rates.shared_of_system = 1024;
  return table;
}

std::vector<GpuFamily> amd_families() {
  std::vector<GpuFamily> table = {
      amd("polaris10", "Radeon RX 480", 36, 8 * gib, 1.266e9, 256e9, false, false),
      amd("vega10", "Radeon RX Vega 64", 64, 8 * gib, 1.546e9, 484e9, true, false),
      amd("navi21", "Radeon RX 6900 XT", 80, 16 * gib, 2.25e9, 512e9, true, true),
      amd("gfx1100", "Radeon RX 7900 XTX", 96, 24 * gib, 2.5e9, 960e9, true, true),
  };
  // A SIMD of GCN issues a subgroup's vector instruction over four clocks, beside scalar and memory ones of others, so
  // that a CU begins one vector instruction a clock. One of RDNA takes 64 lanes in two clocks; a CU has two.
  // GCN holds ten subgroups a SIMD (polaris10: eight, the driver's limit), RDNA 2 and 3 sixteen.
  table[0].rates = {.schedulers = 1, .max_subgroups = 32, .register_step = 4};
  table[1].rates = {.schedulers = 1, .max_subgroups = 40, .register_step = 4};
  table[2].rates = {.schedulers = 1, .max_subgroups = 32, .register_step = 8, .register_files = 2};
  table[3].rates = table[2].rates;
  table[3].rates.registers = 98304;
  table[3].rates.register_step = 12;
  for (GpuFamily& f : table) f.rates.max_groups = f.rates.max_subgroups;  // what limits groups are their subgroups
  return table;
}

std::vector<GpuFamily> intel_families() {
  constexpr DeviceClass integrated = DeviceClass::integrated_gpu, discrete = DeviceClass::discrete_gpu;
  std::vector<GpuFamily> table = {
      intel("skl", "HD Graphics 530", integrated, 24, 8, 256, 16 * gib, 1.15e9, 34e9, true),
      intel("tgllp", "Iris Xe Graphics G7 96EU", integrated, 96, 8, 512, 16 * gib, 1.35e9, 68e9, false),
      intel("dg2", "Arc A770", discrete, 512, 8, 1024, 16 * gib, 2.1e9, 560e9, false),
      intel("pvc", "Data Center GPU Max 1550, one stack", discrete, 512, 16, 1024, 64 * gib, 1.6e9, 1638e9, true),
  };
  // 128 registers of 32 bytes a thread (64 on pvc), seven or eight threads an EU. f32 arithmetic of an EU: two units of
  // four lanes (skl), one of eight, one of sixteen (pvc).
  table[0].rates = {.schedulers = 1, .fma_lanes = 8, .shared_bytes = 8, .cache_bytes = 8, .max_subgroups = 7};
  table[1].rates = {.schedulers = 1, .fma_lanes = 8, .shared_bytes = 8, .cache_bytes = 8, .max_subgroups = 7};
  table[2].rates = {
      .schedulers = 1, .fma_lanes = 8, .matrix_f16 = 64, .shared_bytes = 8, .cache_bytes = 8, .max_subgroups = 8};
  table[3].rates = {
      .schedulers = 1, .fma_lanes = 16, .matrix_f16 = 256, .shared_bytes = 16, .cache_bytes = 16, .max_subgroups = 8};
  for (GpuFamily& f : table) f.rates.shared_total = 8192;  // 64 KiB of eight EUs
  table[3].rates.shared_total = 16384;
  table[3].caps.shared_bytes = 131072;
  table[1].caps.int8_dot = table[2].caps.int8_dot = table[3].caps.int8_dot = true;
  return table;
}

}  // namespace

std::string_view name_of(Vendor vendor) { return vendor_names[static_cast<size_t>(vendor)]; }

const std::vector<GpuFamily>& gpu_families() {
  static const std::vector<GpuFamily> table = [] {
    std::vector<GpuFamily> all = nvidia_families();
    for (auto* more : {&amd_families, &intel_families}) {
      for (GpuFamily& family : more()) all.push_back(std::move(family));
    }
    return all;
  }();
  return table;
}

std::vector<Vendor> parse_vendors(std::span<const std::string> names) {
  std::vector<Vendor> vendors;
  for (const Vendor vendor : {Vendor::nvidia, Vendor::amd, Vendor::intel}) {
    if (names.empty() || std::find(names.begin(), names.end(), name_of(vendor)) != names.end())
      vendors.push_back(vendor);
  }
  for (const std::string& name : names) {
    if (std::find(std::begin(vendor_names), std::end(vendor_names), name) != std::end(vendor_names)) continue;
    throw ValueError(fmt::format("[certify] unknown compiler '{}'{}; known: {}", name,
                                 did_you_mean(name, std::span(vendor_names)), fmt::join(vendor_names, ", ")));
  }
  return vendors;
}

std::vector<const GpuFamily*> find_families(std::span<const Vendor> vendors, std::span<const std::string> archs) {
  std::vector<const GpuFamily*> found;
  std::vector<std::string_view> known;
  for (const GpuFamily& family : gpu_families()) {
    if (std::find(vendors.begin(), vendors.end(), family.vendor) == vendors.end()) continue;
    known.push_back(family.arch);
    if (archs.empty() || std::find(archs.begin(), archs.end(), family.arch) != archs.end()) found.push_back(&family);
  }
  for (const std::string& arch : archs) {
    if (std::find(known.begin(), known.end(), arch) != known.end()) continue;
    throw ValueError(fmt::format("[certify] unknown architecture '{}'{}; known: {}", arch, did_you_mean(arch, known),
                                 fmt::join(known, ", ")));
  }
  return found;
}

}  // namespace heddle::tools::certify
