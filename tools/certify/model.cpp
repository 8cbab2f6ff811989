#include "tools/certify/model.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace heddle::tools::certify {
namespace {

// Clocks until a value from global memory is there, and from shared memory; of all families about as many (Citadel's
// and Chips and Cheese's microbenchmarks: 300 to 600, 20 to 40).
constexpr double memory_latency = 450, shared_latency = 30, barrier_latency = 20;

// Turns of the schedulers that an instruction takes, in clocks of the unit.
double issue_clocks(const Instruction& i, const GpuFamily& family) {
  if (i.unit == Unit::none && family.vendor != Vendor::nvidia) return 0;
  switch (family.vendor) {
    case Vendor::nvidia:
      return 1 / family.rates.schedulers;
    case Vendor::amd:  // scalar units, memory and branches have issue ports of their own
      return i.unit == Unit::vector || i.unit == Unit::fma || i.unit == Unit::matrix ? 1 / family.rates.schedulers : 0;
    case Vendor::intel:  // lanes take turns on units that are narrower than the instruction
      return i.unit == Unit::vector || i.unit == Unit::fma
                 ? std::max(1.0,
                            i.unit == Unit::fma ? i.amount / family.rates.fma_lanes : i.amount / family.rates.fma_lanes)
                 : 1;
  }
  return 0;
}

struct Work {
  double multiply = 0, issue = 0, shared = 0, cache = 0;  // clocks of the unit
  double alone = 0;                                       // clocks of a subgroup that has the unit for itself
};

Work work_of(const Compiled& kernel, const HotLoop& loop, const GpuFamily& family) {
  const UnitRates& unit = family.rates;
  Work work;
  double instructions = 0, waits = 0;
  bool loads = false, shares = false;
  for (const size_t at : loop.instructions) {
    const Instruction& i = kernel.code[at];
    work.issue += issue_clocks(i, family);
    instructions += i.unit == Unit::none ? 0 : 1;
    switch (i.unit) {
      case Unit::fma:
        work.multiply += i.amount / unit.fma_lanes;
        break;
      case Unit::matrix:
        work.multiply += unit.matrix_f16 > 0 ? i.amount / unit.matrix_f16 : 0;
        break;
      case Unit::shared:
        work.shared += i.amount / unit.shared_bytes;
        shares = true;
        break;
      case Unit::memory:
        work.cache += i.amount / unit.cache_bytes;
        loads = true;
        break;
      case Unit::scratch:
        work.cache += i.amount / unit.cache_bytes;
        break;
      case Unit::barrier:
        waits += barrier_latency;
        break;
      default:
        break;
    }
  }
  // Loads at the head of a pass arrive while it computes, as far as it is long enough.
  work.alone =
      instructions + waits + (shares ? shared_latency : 0) + (loads ? std::max(0.0, memory_latency - instructions) : 0);
  return work;
}

}  // namespace

double occupancy_of(const GpuFamily& family, int registers, int64_t shared, uint32_t group, uint32_t lanes) {
  const UnitRates& unit = family.rates;
  const double subgroups = std::max(1.0, std::ceil(group / static_cast<double>(lanes)));
  double groups = std::min(unit.max_groups, std::floor(unit.max_subgroups / subgroups));
  if (unit.registers > 0) {
    const double each = std::max(1.0, std::ceil(registers / unit.register_step)) * unit.register_step * lanes;
    const double of_scheduler = std::floor(unit.registers / unit.register_files / each);
    groups = std::min(groups, std::floor(of_scheduler * unit.register_files / subgroups));
  }
  if (shared > 0)
    groups = std::min(groups, std::floor(unit.shared_total / (static_cast<double>(shared) + unit.shared_of_system)));
  return std::max(1.0, groups) * subgroups / unit.max_subgroups;
}

double fill_of(uint64_t groups, uint64_t units) {
  if (groups == 0 || units == 0) return 1;
  const uint64_t rounds = (groups + units - 1) / units;
  return static_cast<double>(groups) / static_cast<double>(rounds * units);
}

std::string_view name_of(Limit limit) {
  constexpr std::array<std::string_view, 5> names = {"multiply", "issue", "shared", "cache", "latency"};
  return names[static_cast<size_t>(limit)];
}

std::optional<Prediction> predict(const Compiled& kernel, const GpuFamily& family) {
  const std::optional<HotLoop> loop = hot_loop(kernel.code);
  if (!loop) return std::nullopt;
  const Work work = work_of(kernel, *loop, family);
  if (work.multiply <= 0) return std::nullopt;
  const double resident = std::max(1.0, kernel.occupancy * family.rates.max_subgroups);
  const std::array<double, 5> clocks = {work.multiply, work.issue, work.shared, work.cache, work.alone / resident};
  const auto most = std::max_element(clocks.begin(), clocks.end());
  return Prediction{work.multiply / *most, static_cast<Limit>(most - clocks.begin())};
}

}  // namespace heddle::tools::certify
