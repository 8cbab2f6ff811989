#include "heddle/core/tiles/packed_tiles.h"

#include <algorithm>
#include <string>
#include <utility>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {
namespace {

// MR * MB rows of lhs that a panel is multiplied with, where there are `rows`.
std::pair<int64_t, int64_t> rows_of_panel(int64_t rows) {
  int64_t mr = 1, mb = 1;
  while (mr < std::min<int64_t>(rows, 8)) mr *= 2;
  while (mb < 8 && mr * mb < rows) mb *= 2;
  return {mr, mb};
}

}  // namespace

int64_t block_number(GgmlType type) { return static_cast<int64_t>(type); }

bool matmul_packed_pays(const Caps& caps, int64_t rows, int64_t depth) {
  if (caps.machine() == Machine::cpu_loops) return true;
  if (rows > few_packed_rows) return false;
  if (caps.max_loop_iterations == UINT64_MAX) return true;
  const Bindings least{{"SCHEDULE", 0}, {"LANES", 32}, {"MR", 1}, {"NR", 1}};
  return static_cast<uint64_t>(matmul_packed_iterations(least, depth)) <= caps.max_loop_iterations;
}

Bindings pick_matmul_packed(const Caps& caps, GgmlType type, int64_t rows, int64_t columns, int64_t depth) {
  const bool loops = caps.machine() == Machine::cpu_loops;
  const TuningKey key{"packed_matmul", std::string(block_of(type).name), {rows, columns, depth}};
  if (loops && rows > few_packed_rows) {
    const auto [mr, mb] = rows_of_panel(rows);
    return tuned(caps, key, {{"SCHEDULE", 2}, {"MR", mr}, {"MB", mb}, {"NR", 32}, {"KS", 4}, {"VW", 16}});
  }
  const int64_t mr = rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
  // On a CPU, groups so large that starting one costs little, and so many that all cores have some.
  const Bindings row{{"SCHEDULE", loops ? 1 : 0},
                     {"LANES", caps.machine() == Machine::cpu_lanes ? 8 : 32},
                     {"MR", mr},
                     {"NR", loops ? (columns >= 4096 ? 64 : 16) : 1}};
  return tuned(caps, key, row);
}

int64_t matmul_packed_iterations(const Bindings& tunables, int64_t depth) {
  const int64_t stretches = ceil_div(depth, packed_stretch), rows = tunables.at("NR"), mr = tunables.at("MR");
  if (tunables.at("SCHEDULE") == 2) return stretches * packed_stretch * (4 + mr * tunables.at("MB"));
  if (tunables.at("SCHEDULE") == 1) return rows * (stretches * (mr + 2) + 8 * mr);
  return rows * (ceil_div(stretches, tunables.at("LANES")) * (mr + 1) * packed_stretch + 16 * mr);
}

bool matmul_packed_grad_takes(const Caps& caps, int64_t depth) {
  // AMD's compiler puts a lane's sums into memory (navi21, every type): on GPUs the weight is unpacked, as it is for
  // products of many rows.
  if (caps.machine() == Machine::simt) return false;
  if (caps.max_loop_iterations == UINT64_MAX) return true;
  const Bindings least{{"SCHEDULE", 0}, {"LANES", 64}, {"MR", 1}};
  return static_cast<uint64_t>(matmul_packed_grad_iterations(least, 1, depth)) <= caps.max_loop_iterations;
}

Bindings pick_matmul_packed_grad(const Caps& caps, GgmlType type, int64_t rows, int64_t columns, int64_t depth) {
  const bool loops = caps.machine() == Machine::cpu_loops;
  // Sums of more rows do not fit the registers of a CPU's vectors.
  const bool lanes = caps.machine() == Machine::cpu_lanes;
  const auto [mr, mb] = rows_of_panel(loops ? rows : std::min<int64_t>(rows, lanes ? 1 : 4));
  // On a CPU, as many groups as keep all cores busy; stretches of one group share lines of memory.
  const int64_t stretches = columns / packed_stretch, bands = ceil_div(rows, mr * mb);
  int64_t ns = 1;
  while (loops && ns < 8 && stretches / (2 * ns) * bands >= 32) ns *= 2;
  Bindings row{{"SCHEDULE", loops ? 1 : 0}, {"LANES", lanes ? 8 : 32}, {"MR", mr}, {"MB", mb}, {"NB", 64}, {"NS", ns}};
  const auto too_long = [&] {
    return static_cast<uint64_t>(matmul_packed_grad_iterations(row, rows, depth)) > caps.max_loop_iterations;
  };
  while (row["LANES"] < 64 && too_long()) row["LANES"] *= 2;
  while (row["MR"] > 1 && too_long()) row["MR"] /= 2;
  return tuned(caps, {"packed_matmul_grad", std::string(block_of(type).name), {rows, columns, depth}}, row);
}

int64_t matmul_packed_grad_iterations(const Bindings& tunables, int64_t rows, int64_t depth) {
  const int64_t mr = tunables.at("MR");
  if (tunables.at("SCHEDULE") == 0) {
    const int64_t lanes = tunables.at("LANES");
    return ceil_div(depth, lanes) * (mr + 1) * packed_stretch + mr * packed_stretch * (lanes + 1);
  }
  const int64_t blocks = std::min(ceil_div(rows, mr), tunables.at("MB"));
  return tunables.at("NS") * (depth * (2 + blocks * mr) + ceil_div(depth, tunables.at("NB")) * 2 * mr * blocks +
                              packed_stretch * mr * blocks);
}

Bindings pick_unpack_blocks(const Caps& caps) {
  const bool loops = caps.machine() == Machine::cpu_loops;
  return {{"LANES", loops ? 1 : 64}, {"COUNT", loops ? 64 : 1}};
}

}  // namespace heddle
