// What single drivers do otherwise than their API promises, or otherwise than other drivers, as one table.
//
// Purpose: a special case of a driver is a row: whose it is, what it does, why Heddle does what about it, and the test
// that shows it. `heddle devices --quirks` prints them. Invariant: backends act on a row (Quirks::has), never on a
// driver's name. Rows of `Quirk::everywhere` are acted on whatever the driver, because it costs nothing.
// Thread safety: pure functions over a constant table.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "heddle/core/contract/device_info.h"

namespace heddle {

enum class Quirk : uint8_t {
  everywhere,
  computes_wrong,        // the device is refused by name; HEDDLE_REFUSED_DRIVERS=1 opens it
  lanes_are_loops,       // Machine::cpu_loops
  lanes_are_vectors,     // Machine::cpu_lanes
  loops_end_early,       // Caps::max_loop_iterations
  loops_compile_slowly,  // Caps::max_loop_ops
  texels_beat_buffers,   // Caps::texel_loads
  units_not_counted,     // Caps::compute_units is the machine's
  runs_at_once,          // Caps::async and uploads_beside are false
  group_size_wrong,      // CL_KERNEL_WORK_GROUP_SIZE is not asked
  times_out_of_order,    // a command may end before it begins, or begin before the one before it ended
  caches_binaries,       // programs are not kept by Heddle too
  compiles_one_by_one,   // one thread builds programs
  reads_whole_header,    // programs bring the declarations that they need
  sinks_instructions,    // LLVM is told not to
  unswitches_vectors,    // LLVM is told not to
  contracts_freely,      // programs are built without contraction
  unloads_kernels,       // machine code is held
  wakes_threads,         // small launches in a row are one
};

// As many numbers as a driver's version has, {22, 3, 6}; the rest are 0.
using DriverVersion = std::array<int, 3>;

struct QuirkRow {
  Quirk quirk;
  std::string_view name;     // "lanes-are-loops"; unique together with driver and device
  std::string_view backend;  // "opencl"; empty: any
  std::string_view driver;   // what DeviceInfo::driver begins with, before the version; empty: any
  std::string_view device;   // what DeviceInfo::name begins with; empty: any
  DriverVersion from{};      // first version that has it; zeros: all before `below`
  DriverVersion below{};     // first version without it; zeros: none known
  std::string_view what;     // what the driver does
  std::string_view act;      // what Heddle does about it
  std::string_view test;     // "Suite.Name" of tests/, or a command, that shows it
};

// All rows, in the order in which they are printed.
std::span<const QuirkRow> quirk_table();

// Whether a row is one of this device. Rows of Quirk::everywhere match the drivers that they name.
bool applies(const QuirkRow& row, const DeviceInfo& info);

// The version that a driver's text names after `product`, {22, 3, 6} in "rusticl 22.3.6"; zeros where it names none.
DriverVersion version_after(std::string_view driver, std::string_view product);

// "all", "from 6", "before 7.0.1", "from 6, before 7.0.1".
std::string versions_text(const QuirkRow& row);

// The quirks of one device.
class Quirks {
 public:
  Quirks() = default;
  explicit Quirks(const DeviceInfo& info);
  bool has(Quirk quirk) const { return (bits_ >> static_cast<unsigned>(quirk) & 1u) != 0; }

 private:
  uint32_t bits_ = 0;
};

}  // namespace heddle
