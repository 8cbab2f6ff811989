#include "heddle/core/tiles/linalg_tiles.h"

#include <algorithm>
#include <string>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {
namespace {

bool loops(const Caps& caps) { return caps.machine() == Machine::cpu_loops; }
bool gpu(const Caps& caps) { return caps.machine() == Machine::simt; }

// Lanes that own rows (or columns): a power of two, as group reductions want, and no more than there are.
Bindings pick_owners(const Caps& caps, const char* body, DType dtype, std::vector<int64_t> sizes) {
  int64_t lanes = 8;
  while (lanes < sizes[0] && lanes < (gpu(caps) ? 128 : 64)) lanes *= 2;
  Bindings row{{"SCHEDULE", loops(caps) ? 1 : 0}, {"LANES", lanes}};
  row = tuned(caps, {body, std::string(name_of(dtype)), std::move(sizes)}, row);
  if (dtype == DType::f64) row["SCHEDULE"] = 1;
  row["LANES"] = std::min<int64_t>(row["LANES"], caps.max_group_lanes);
  return row;
}

int64_t largest_block(const Caps& caps, DType dtype, int64_t n) {
  const Bindings row =
      tuned(caps, {"linalg_block", std::string(name_of(dtype)), {n}}, {{"BLOCK", loops(caps) ? 64 : 128}});
  return std::clamp<int64_t>(row.at("BLOCK"), 1, 128);
}

// Halves a block until its launch fits the driver's loops.
template <class Iterations>
int64_t fitting(const Caps& caps, int64_t block, Iterations&& iterations) {
  while (block > 1 && static_cast<uint64_t>(iterations(block)) > caps.max_loop_iterations) block /= 2;
  return block;
}

}  // namespace

Bindings pick_cholesky(const Caps& caps, DType dtype, int64_t n) { return pick_owners(caps, "cholesky", dtype, {n}); }

int64_t cholesky_iterations(const Bindings& tunables, int64_t n) {
  const int64_t lanes = tunables.at("SCHEDULE") == 0 ? tunables.at("LANES") : 1, own = ceil_div(n, lanes);
  return own * n + n * (4 * own + 4) + own * n * n / 2;
}

Bindings pick_lu(const Caps& caps, DType dtype, int64_t m, int64_t n) { return pick_owners(caps, "lu", dtype, {m, n}); }

// Exchanging rows copies four, by the lanes that own them; 64: the two reductions.
int64_t lu_iterations(const Bindings& tunables, int64_t m, int64_t n) {
  const int64_t lanes = tunables.at("SCHEDULE") == 0 ? tunables.at("LANES") : 1, own = ceil_div(m, lanes),
                steps = std::min(m, n);
  return own * (n + 1) + steps * (2 * own + 4 * n + 64) + own * steps * n - own * steps * steps / 2;
}

Bindings pick_triangular(const Caps& caps, DType dtype, int64_t n, int64_t k) {
  const Bindings row{{"SCHEDULE", loops(caps) ? 1 : 0}, {"LANES", gpu(caps) ? 64 : 16}, {"WIDTH", k > 16 ? 64 : 16}};
  return tuned(caps, {"triangular", std::string(name_of(dtype)), {n, k}}, row);
}

int64_t triangular_iterations(const Bindings& tunables, int64_t n, int64_t k) {
  if (tunables.at("SCHEDULE") == 0) return n * (n + 1) / 2 + n;
  return n * (n + 1) / 2 * (1 + std::min(k, tunables.at("WIDTH"))) + 2 * n * std::min(k, tunables.at("WIDTH"));
}

Bindings pick_blocks(const Caps& caps, DType dtype, int64_t m, int64_t n) {
  const Bindings row{{"SCHEDULE", loops(caps) ? 1 : 0}, {"LANES", gpu(caps) ? 128 : 64}};
  return tuned(caps, {"blocks", std::string(name_of(dtype)), {m, n}}, row);
}

int64_t cholesky_block(const Caps& caps, DType dtype, int64_t n) {
  return fitting(caps, std::min(n, largest_block(caps, dtype, n)),
                 [&](int64_t block) { return cholesky_iterations(pick_cholesky(caps, dtype, block), block); });
}

int64_t lu_block(const Caps& caps, DType dtype, int64_t m, int64_t n) {
  return fitting(caps, std::min(n, largest_block(caps, dtype, n)),
                 [&](int64_t block) { return lu_iterations(pick_lu(caps, dtype, m, block), m, block); });
}

int64_t triangular_block(const Caps& caps, DType dtype, int64_t n, int64_t k) {
  return fitting(caps, std::min(n, largest_block(caps, dtype, n)), [&](int64_t block) {
    return triangular_iterations(pick_triangular(caps, dtype, block, k), block, k);
  });
}

int64_t qr_width(int64_t n) { return n <= 16 ? 16 : n <= 32 ? 32 : 64; }

Bindings pick_qr(const Caps& caps, DType dtype, int64_t m, int64_t n) {
  Bindings row = tuned(caps, {"qr", std::string(name_of(dtype)), {n, m}}, {{"SCHEDULE", loops(caps) ? 1 : 0}});
  if (m > 2048 || dtype == DType::f64) row["SCHEDULE"] = 1;  // a column of floats fits its shared array
  row["WIDTH"] = qr_width(n);
  return row;
}

Bindings pick_condensing(const Caps& caps, DType dtype, int64_t n, bool both) {
  return pick_owners(caps, both ? "bidiagonal" : "tridiagonal", dtype, {n});
}

Bindings pick_sweeps(const Caps& caps, DType dtype, int64_t n) {
  return tuned(caps, {"sweeps", std::string(name_of(dtype)), {n}}, {{"LANES", loops(caps) ? 1 : 8}});
}

Bindings pick_rotate_rows(const Caps& caps, DType dtype, int64_t n) {
  const Bindings row{{"SCHEDULE", loops(caps) ? 1 : 0}, {"LANES", gpu(caps) ? 64 : 16}};
  return tuned(caps, {"rotate_rows", std::string(name_of(dtype)), {n}}, row);
}

Bindings pick_jacobi(const Caps& caps, DType dtype, int64_t n) {
  Bindings row = pick_owners(caps, "jacobi", dtype, {n});
  if (!gpu(caps)) row["LANES"] = std::min<int64_t>(row["LANES"], 32);
  return row;
}

// 64: two reductions.
int64_t qr_iterations(const Bindings& tunables, int64_t m, int64_t n) {
  const int64_t width = tunables.at("WIDTH");
  if (tunables.at("SCHEDULE") == 1)
    return m * (width + n + 1) + 2 * width * (width + 1) + n * (5 * m + (2 * m + n + 5) * width + 2 * n);
  return m + width + n * (4 * m + 3 * ceil_div(m, width) + 2 * n + 64);
}

int64_t condensing_pitch(int64_t n) { return round_up(n, 16) + (n % 128 == 0 ? 16 : 0); }

int64_t condensing_iterations(const Bindings& tunables, int64_t n, bool both, int64_t steps) {
  const int64_t pitch = condensing_pitch(n), rows = both ? 2 * n + 7 : n + 5;
  if (tunables.at("SCHEDULE") == 1) return rows * pitch + steps * (both ? 2 * n + 12 : n + 12) * pitch + steps * 4 * n;
  const int64_t own = ceil_div(pitch, tunables.at("LANES")), each = own * (n + 8) + 2 * n + 128;
  return own * (rows + 2) + steps * (both ? each + n * (own + 32) : each);
}

int64_t sweeps_iterations(int64_t n, int64_t sweeps, int64_t room) { return 4 * n + sweeps * (n + 2) + room; }

int64_t rotate_rows_iterations(const Bindings& tunables, int64_t n, int64_t sweeps, int64_t room) {
  const int64_t width = tunables.at("SCHEDULE") == 1 ? 65 : 1;
  return (n + 2 * sweeps + room) * width;
}

// 48: three reductions.
int64_t jacobi_iterations(const Bindings& tunables, int64_t n, int64_t pairs) {
  if (tunables.at("SCHEDULE") == 1) return 2 * n * n + pairs * (n + ceil_div(n, 16) + n + 33);
  const int64_t own = ceil_div(n, tunables.at("LANES"));
  return 2 * n * (own + 1) + pairs * (2 * own + 49);
}

namespace {

// As many as fit, at least one (a launch that is too long even then is refused with the limit's name).
template <class Iterations>
int64_t most_steps(const Caps& caps, int64_t most, Iterations&& iterations) {
  const int64_t fixed = iterations(0), each = iterations(1) - fixed;
  if (caps.max_loop_iterations > uint64_t{1} << 40) return most;
  return std::clamp<int64_t>((static_cast<int64_t>(caps.max_loop_iterations) - fixed) / each, 1, most);
}

int64_t at_most(const Caps& caps, const char* key, DType dtype, int64_t size, int64_t most) {
  return std::max<int64_t>(1, tuned(caps, {key, std::string(name_of(dtype)), {size}}, {{"STEPS", most}}).at("STEPS"));
}

}  // namespace

int64_t qr_block(const Caps& caps, DType dtype, int64_t m, int64_t n) {
  return fitting(caps, std::min({n, largest_block(caps, dtype, n), int64_t{64}}),
                 [&](int64_t block) { return qr_iterations(pick_qr(caps, dtype, m, block), m, block); });
}

int64_t condensing_steps(const Caps& caps, DType dtype, int64_t n, bool both) {
  const Bindings tunables = pick_condensing(caps, dtype, n, both);
  return most_steps(caps, at_most(caps, "condensing_steps", dtype, n, n),
                    [&](int64_t steps) { return condensing_iterations(tunables, n, both, steps); });
}

// An eigenvalue takes less than two sweeps on average, the shorter the fewer are left.
SweepLaunches sweep_launches(const Caps& caps, DType dtype, int64_t n) {
  const int64_t sweeps = 6 * n + 30, rotations = 3 * n * n + 64;
  SweepLaunches made{2 * n + 10, n * n + n, 1};
  const int64_t forced = at_most(caps, "sweeps_of_a_launch", dtype, n, made.sweeps);
  if (forced < made.sweeps) made = {forced, forced * n, 1};
  if (caps.max_loop_iterations < uint64_t{1} << 40) {
    const auto most = static_cast<int64_t>(caps.max_loop_iterations);
    made.room = std::clamp<int64_t>(most / 3, n, made.room);
    made.sweeps = std::clamp<int64_t>((most - 4 * n - made.room) / (n + 2), 1, made.sweeps);
  }
  made.launches = std::max(ceil_div(sweeps, made.sweeps), ceil_div(rotations, made.room));
  return made;
}

bool condenses(const Caps& caps, DType dtype, int64_t n, bool both) {
  const Bindings least = tuned(caps, {"condensed", std::string(name_of(dtype)), {n}}, {{"LEAST", 9}});
  const Bindings tunables = pick_condensing(caps, dtype, n, both);
  if (n < least.at("LEAST") || (tunables.at("SCHEDULE") == 0 && n > 1024)) return false;
  const SweepLaunches sweeps = sweep_launches(caps, dtype, n);
  const int64_t longest =
      std::max({condensing_iterations(tunables, n, both, 1), sweeps_iterations(n, sweeps.sweeps, sweeps.room),
                rotate_rows_iterations(pick_rotate_rows(caps, dtype, n), n, sweeps.sweeps, sweeps.room)});
  return static_cast<uint64_t>(longest) <= caps.max_loop_iterations;
}

int64_t jacobi_pairs(const Caps& caps, DType dtype, int64_t n) {
  const Bindings tunables = pick_jacobi(caps, dtype, n);
  const int64_t most = gpu(caps) ? 1 << 15 : int64_t{1} << 30;
  return most_steps(caps, at_most(caps, "jacobi_pairs", dtype, n, most),
                    [&](int64_t pairs) { return jacobi_iterations(tunables, n, pairs); });
}

}  // namespace heddle
