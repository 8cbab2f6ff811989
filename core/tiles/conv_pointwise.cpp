#include "heddle/core/tiles/conv_pointwise.h"

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/conv_schedules.h"

namespace heddle {

namespace {

using conv_schedules::most_floats;
using conv_schedules::Row;

// Vectors of pixels that leave the fewest unused: a few pixels that are left over are summed otherwise.
int64_t vectors_of_pixels(int64_t pixels) {
  if (pixels <= 32) return ceil_div(pixels, 16);
  const auto unused = [&](int64_t nv) {
    const int64_t left = pixels % (nv * 16);
    return left <= 4 ? 0 : left <= 16 ? 16 - left : nv * 16 - left;
  };
  return pixels <= 256 && unused(3) < unused(4) ? 3 : 4;
}

// As many rows as leave all sums in registers beside four vectors, fewer where that computes more for nothing.
int64_t rows_of_channels(int64_t channels, int64_t nv) {
  const int64_t most = nv == 4 ? 6 : nv == 3 ? 7 : 10;
  int64_t best = most;
  double least = 1e30;
  for (int64_t mr = 4; mr <= most; ++mr) {
    const double cost = static_cast<double>(ceil_div(channels, mr) * mr) * (1 + 0.03 * static_cast<double>(most - mr));
    if (cost <= least) {
      least = cost;
      best = mr;
    }
  }
  return best;
}

}  // namespace

Bindings pick_pointwise(const Caps& caps, const ConvProblem& p) {
  const bool backward = p.kind == ConvProblem::Kind::input_grad;
  const Extent3& walk = backward ? p.in : p.out;
  const int64_t cores = std::max<int64_t>(1, caps.compute_units), wanted = 4 * cores;
  const int64_t pixels = p.N * walk[1] * walk[2];
  Row row{{"SCHEDULE", conv_schedules::pointwise}, {"VW", 16}};
  row["NV"] = vectors_of_pixels(std::max<int64_t>(1, pixels));
  row["MR"] = rows_of_channels(p.OG, row["NV"]);
  const auto tiles = [&] {
    return p.G * walk[0] * ceil_div(walk[1], row["QH"]) * ceil_div(walk[2], row["QT"] * 16) * ceil_div(p.N, row["NI"]);
  };
  row["QT"] = row["QH"] = row["NI"] = 1;
  const int64_t most = std::min<int64_t>(768, most_floats / std::max<int64_t>(1, p.CG) - 48);  // pixels
  const auto grow = [&](const char* name, std::initializer_list<int64_t> values, int64_t size) {
    for (const int64_t value : values) {
      const int64_t before = row[name];
      if (before >= size) return;
      row[name] = value;
      if (row["NI"] * row["QH"] * row["QT"] * 16 > most || (value > 3 && tiles() < wanted)) row[name] = before;
    }
  };
  const int64_t all = choice_at_least("conv", "QT", ceil_div(walk[2], 16));
  row["QT"] = row["NV"];
  grow("QT", {2 * row["NV"], 3 * row["NV"]}, ceil_div(walk[2], 16));
  if (all * 16 >= walk[2] && all * 16 <= most) row["QT"] = all;  // channels of dst are shared out instead
  const bool whole = row["QT"] * 16 >= walk[2];
  if (whole) grow("QH", {2, 4, 7, 8, 14, 16, 28, 32, 56}, walk[1]);
  if (whole && row["QH"] >= walk[1]) grow("NI", {2, 4, 8, 16}, p.N);
  row["NO"] = choice_at_least("conv", "NO", ceil_div(p.OG, 16));
  while (row["NO"] > 1 && tiles() * ceil_div(p.OG, 16 * row["NO"]) < 2 * cores) row["NO"] /= 2;
  return row;
}

}  // namespace heddle
