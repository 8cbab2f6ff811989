// A static model of a kernel's hot loop: which part of a compute unit it keeps busiest, and what fraction of the peak
// of its multiply-adds that leaves.
//
// Purpose: orders kernels where nothing can be measured. A pass of the loop by one subgroup takes of the unit: turns of
// its schedulers, of its multiply-add lanes or matrix unit, of shared memory, of the cache; the greatest of these is
// what many subgroups reach together, and one subgroup alone takes its instructions one after the other and waits for
// what it loads: too few subgroups do not reach it. Invariants: between 0 and 1; rates are those of the family's row.
// What it leaves out: banks, misses of the cache, lanes that read the same address, the rest of the kernel. Thread
// safety: pure.
#pragma once

#include <optional>
#include <string_view>

#include "tools/certify/compilers.h"

namespace heddle::tools::certify {

// Subgroups that a compute unit holds of a kernel / the most that it holds (UnitRates::max_subgroups): what registers,
// shared memory and the number of groups leave room for. `group`: lanes of a group. At least one group is resident.
double occupancy_of(const GpuFamily& family, int registers, int64_t shared, uint32_t group, uint32_t lanes);

// Groups of a launch / the groups that all units could do in its rounds: what the last round leaves idle.
double fill_of(uint64_t groups, uint64_t units);

enum class Limit : uint8_t { multiply, issue, shared, cache, latency };
std::string_view name_of(Limit limit);

struct Prediction {
  double fraction = 0;  // of the peak of the unit that multiplies
  Limit limit = Limit::multiply;
};
// None where the kernel has no loop that multiplies, or a matrix unit whose rate is not in the table.
std::optional<Prediction> predict(const Compiled& kernel, const GpuFamily& family);

}  // namespace heddle::tools::certify
