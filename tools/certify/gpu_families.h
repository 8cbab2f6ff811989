// GPU families: what a device of each would say of itself, and how fast its parts are, without the device.
//
// Purpose: the pickers of core/tiles choose from Caps, and vendors' compilers need an architecture; one row a family
// says both, of the card that is named. Invariants: names are unique; where a figure is not the vendor's, the row says
// so. Thread safety: immutable after first use.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/contract/device_info.h"

namespace heddle::tools::certify {

// Whose compiler a family needs; the order of tables.
enum class Vendor : uint8_t { nvidia, amd, intel };
std::string_view name_of(Vendor vendor);

// Of one compute unit: NVIDIA's SM, AMD's CU, Intel's EU (whose shared memory and cache belong to a group of EUs, so
// that they are shares).
struct UnitRates {
  double schedulers = 4;      // instructions of a subgroup that begin in one clock, all schedulers together
  double fma_lanes = 64;      // f32 multiply-adds a clock
  double matrix_f16 = 0;      // multiply-adds of f16 a clock of the matrix units, sums in f32; 0: none
  double shared_bytes = 128;  // of shared memory a clock
  double cache_bytes = 64;    // of the cache beside it a clock
  double max_subgroups = 64;  // that a unit holds at most
  double max_groups = 32;
  double registers = 65536;  // 32-bit registers of a unit
  double register_step = 8;  // registers of a lane are given out in such steps
  double shared_total = 65536;
  double shared_of_system = 0;  // that each group takes beside its own
  double register_files = 4;    // a subgroup's registers lie in one of these
};

struct GpuFamily {
  Vendor vendor = Vendor::nvidia;
  std::string arch;  // as the vendor's compiler calls it
  std::string card;  // whose figures these are
  Caps caps;
  double clock_hz = 0, memory_bytes_per_s = 0;
  UnitRates rates;
  uint32_t compiled_lanes = 32;  // of a subgroup, as the compiler makes it (Intel: it chooses, the rows say it)
};

const std::vector<GpuFamily>& gpu_families();
// Of those vendors; all where the list is empty. ValueError, with a suggestion, for another name.
std::vector<Vendor> parse_vendors(std::span<const std::string> names);
// By arch, of those vendors; all of them where no name is given. ValueError, with a suggestion, for another name.
std::vector<const GpuFamily*> find_families(std::span<const Vendor> vendors, std::span<const std::string> archs);

}  // namespace heddle::tools::certify
