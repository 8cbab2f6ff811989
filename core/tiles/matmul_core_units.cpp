#include "heddle/core/tiles/matmul_core_units.h"

#include <algorithm>
#include <limits>

#include "heddle/core/base/integers.h"
#include "heddle/core/dialect/print_options.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/matmul_schedules.h"

namespace heddle {
namespace {

// Cycles of a group of MB x NB blocks of 32 x 32, 32 deep: a product of tiles, and the copy of a tile of either operand
// as it lies or turned (two AVX-512 cores, PoCL 3.1: docs/benchmarks.md).
double core_units_cycles(CoreUnits units, const MatmulProblem& p, int64_t mb, int64_t nb) {
  const double multiply = units == CoreUnits::tiles ? 16 : 256;
  constexpr double copy = 40, turn = 120;
  const double a = p.a_m1 && !p.a_k1 ? turn : copy, b = p.b_k1 && !p.b_n1 ? turn : copy;
  return 4 * multiply * static_cast<double>(mb * nb) + 2 * (a * static_cast<double>(mb) + b * static_cast<double>(nb));
}

}  // namespace

bool takes_core_units(const Caps& caps, const MatmulProblem& p) {
  return core_units(caps) != CoreUnits::none && p.a_value == DType::bf16 && p.b_value == DType::bf16 && p.M >= 16 &&
         p.N >= 16 && p.K >= 16;
}

Bindings pick_core_units(const Caps& caps, const MatmulProblem& p) {
  // Whole depths: sums stay in the units. Deeper ones pass through memory.
  Bindings best{{"SCHEDULE", matmul_schedules::core_units}};
  best["KC"] = choice_at_least("matmul", "KC", std::clamp<int64_t>(p.K, 64, 1024));
  double least = std::numeric_limits<double>::max();
  const int64_t rows = ceil_div(p.M, 32), columns = ceil_div(p.N, 32), cores = std::max<int64_t>(1, caps.compute_units);
  for (const int64_t mb : {1, 2, 4, 8, 16}) {
    for (const int64_t nb : {1, 2, 4, 8}) {
      const int64_t groups = p.batch * ceil_div(rows, mb) * ceil_div(columns, nb);
      const double cycles = static_cast<double>(ceil_div(groups, cores)) *
                            core_units_cycles(core_units(caps), p, std::min(mb, rows), std::min(nb, columns));
      if (cycles >= least) continue;
      least = cycles;
      best["MB"] = mb;
      best["NB"] = nb;
    }
  }
  return best;
}

}  // namespace heddle
