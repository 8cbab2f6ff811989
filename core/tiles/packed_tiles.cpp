#include "heddle/core/tiles/packed_tiles.h"

#include <algorithm>
#include <string>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {

int64_t block_number(GgmlType type) { return static_cast<int64_t>(type); }

bool matmul_packed_pays(const Caps& caps, int64_t rows, int64_t depth) {
  if (rows > 8) return false;
  if (caps.max_loop_iterations == UINT64_MAX) return true;
  const Bindings least{{"SCHEDULE", 0}, {"LANES", 32}, {"MR", 1}, {"NR", 1}};
  return static_cast<uint64_t>(matmul_packed_iterations(least, depth)) <= caps.max_loop_iterations;
}

Bindings pick_matmul_packed(const Caps& caps, GgmlType type, int64_t rows, int64_t columns, int64_t depth) {
  const bool loops = caps.machine() == Machine::cpu_loops;
  const int64_t mr = rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
  // On a CPU, groups so large that starting one costs little, and so many that all cores have some.
  const Bindings row{{"SCHEDULE", loops ? 1 : 0},
                     {"LANES", caps.machine() == Machine::cpu_lanes ? 8 : 32},
                     {"MR", mr},
                     {"NR", loops ? (columns >= 4096 ? 64 : 16) : 1}};
  return tuned(caps, {"packed_matmul", std::string(block_of(type).name), {rows, columns, depth}}, row);
}

int64_t matmul_packed_iterations(const Bindings& tunables, int64_t depth) {
  const int64_t stretches = ceil_div(depth, packed_stretch), rows = tunables.at("NR"), mr = tunables.at("MR");
  if (tunables.at("SCHEDULE") == 1) return rows * (stretches * (mr + 2) + 8 * mr);
  return rows * (ceil_div(stretches, tunables.at("LANES")) * (mr + 1) * packed_stretch + 16 * mr);
}

Bindings pick_unpack_blocks(const Caps& caps) {
  const bool loops = caps.machine() == Machine::cpu_loops;
  return {{"LANES", loops ? 1 : 64}, {"COUNT", loops ? 64 : 1}};
}

}  // namespace heddle
