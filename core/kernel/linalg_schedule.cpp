#include "core/kernel/linalg_schedule.h"

#include <algorithm>
#include <string>

#include "core/kernel/tuning.h"

namespace heddle {
namespace {

bool loops(const Caps& caps) { return caps.device_class == DeviceClass::cpu && caps.target == Target::opencl; }
bool gpu(const Caps& caps) { return caps.device_class != DeviceClass::cpu; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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
  const Bindings row = tuned(caps, {"linalg_block", std::string(name_of(dtype)), {n}}, {{"BLOCK", 128}});
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
  const int64_t lanes = tunables.at("SCHEDULE") == 0 ? tunables.at("LANES") : 1, own = ceil_div(m, lanes), steps = std::min(m, n);
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
  return fitting(caps, std::min(n, largest_block(caps, dtype, n)), [&](int64_t block) { return cholesky_iterations(pick_cholesky(caps, dtype, block), block); });
}

int64_t lu_block(const Caps& caps, DType dtype, int64_t m, int64_t n) {
  return fitting(caps, std::min(n, largest_block(caps, dtype, n)), [&](int64_t block) { return lu_iterations(pick_lu(caps, dtype, m, block), m, block); });
}

int64_t triangular_block(const Caps& caps, DType dtype, int64_t n, int64_t k) {
  return fitting(caps, std::min(n, largest_block(caps, dtype, n)), [&](int64_t block) { return triangular_iterations(pick_triangular(caps, dtype, block, k), block, k); });
}

}  // namespace heddle
