#include "heddle/core/tiles/conv_pointwise.h"

#include <algorithm>
#include <limits>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/conv_schedules.h"
#include "heddle/core/tiles/cpu_registers.h"

namespace heddle {

namespace {

using conv_schedules::most_floats;
using conv_schedules::Row;

// As many rows as leave all sums in registers beside the vectors of a panel, fewer where that computes more for
// nothing.
int64_t rows_of_channels(int64_t channels, int64_t most, bool wide) {
  int64_t best = most;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t mr = std::min<int64_t>(4, most); mr <= most; ++mr) {
    const double cost =
        wide ? static_cast<double>(ceil_div(channels, mr) * mr) * (1 + 0.03 * static_cast<double>(most - mr))
             : static_cast<double>(narrow_blocks_cost(channels, mr));
    if (cost <= least) {
      least = cost;
      best = mr;
    }
  }
  return best;
}

class Panels {
 public:
  Panels(const Caps& caps, const ConvProblem& p)
      : p_(p),
        wide_(has_wide_registers(caps)),
        vw_(register_width(caps)),
        walk_(p.kind == ConvProblem::Kind::input_grad ? p.in : p.out),
        depth_(p.CG * conv_taps(p)) {
    const int64_t weights = p.G * p.OG * depth_, threads = std::max<int64_t>(1, caps.compute_units);
    cores_ = is_small_work(p.N * walk_[0] * walk_[1] * walk_[2] * weights, weights, threads) ? 1 : threads;
  }

  Row pick() {
    row_ = {{"SCHEDULE", conv_schedules::pointwise}, {"VW", vw_}};
    best_ = row_;
    for (int64_t nv = most_vectors(); nv >= 1; --nv) {
      row_["NV"] = nv;
      row_["MR"] = rows_of_channels(p_.OG, most_rows(nv), wide_);
      const int64_t whole = choice_at_least("conv", "QT", ceil_div(walk_[2], 16));
      const bool fits = whole * 16 >= walk_[2];
      if (fits) with_columns(whole);
      if (wide_ && !fits) {
        for (const int64_t panels : {1, 2, 3}) with_columns(choice_at_least("conv", "QT", panels * nv));
      } else if (!wide_ && (!fits || walk_[1] == 1)) {
        // Of one long row, as images without borders are, any part.
        for (const int64_t qt : choices_of("conv", "QT")) with_columns(qt);
      }
    }
    return best_;
  }

 private:
  int64_t most_vectors() const { return wide_ ? 4 : 2; }
  int64_t most_rows(int64_t nv) const {
    if (!wide_) return nv == 2 ? 6 : 10;
    return nv == 4 ? 6 : nv == 3 ? 7 : 10;
  }

  void with_columns(int64_t qt) {
    row_["QT"] = qt;
    for (const int64_t qh : choices_of("conv", "QH")) {
      if (qh > 1 && (qh > walk_[1] || qt * 16 < walk_[2])) break;
      for (const int64_t ni : choices_of("conv", "NI")) {
        if (ni > 1 && (ni > p_.N || qh < walk_[1])) break;
        for (const int64_t no : choices_of("conv", "NO")) {
          row_["QH"] = qh;
          row_["NI"] = ni;
          row_["NO"] = no;
          consider();
          if (16 * no >= p_.OG) break;
        }
      }
    }
  }

  void consider() {
    const int64_t columns = p_.sized ? std::min(16 * row_["QT"], walk_[2]) : 16 * row_["QT"];
    const int64_t width = vw_ * row_["NV"], pixels = row_["NI"] * row_["QH"] * columns;
    const int64_t taps = conv_taps(p_), panels = ceil_div(pixels, width);
    if (panels * (row_["NO"] * 16 + row_["MR"]) * width > most_floats || panels * width * taps * 4 > most_floats)
      return;
    row_["CB"] = choice_at_least("conv", "CB", std::max<int64_t>(4, p_.CG));
    while (row_["CB"] > 4 && panels * width * row_["CB"] * taps > most_floats / 2) row_["CB"] /= 2;
    if (p_.w_o1 && (row_["NO"] * 16 + row_["MR"]) * (row_["CB"] + 16) > most_floats) return;
    if (conv_taps(p_) > 1 && row_["NI"] * plane() > 1 << 16) return;
    if (const double t = cycles(); t < least_) {
      least_ = t;
      best_ = row_;
    }
  }

  int64_t plane() const {
    const int64_t h = (row_.at("QH") - 1) * p_.stride[1] + (p_.kernel[1] - 1) * p_.dilation[1] + 1;
    return h * (16 * row_.at("QT") + (p_.kernel[2] - 1) * p_.dilation[2]) * (p_.kernel[2] == 1 ? 1 : p_.stride[2]);
  }

  // Vectors that are multiplied; a single one waits for its sums, and few pixels are dot products.
  double vectors(int64_t pixels) const {
    const int64_t nv = row_.at("NV"), left = pixels % (vw_ * nv);
    const double rest = left == 0     ? 0
                        : left <= 4   ? 0.1 * static_cast<double>(left)
                        : left <= vw_ ? 1.4
                                      : static_cast<double>(nv);
    return static_cast<double>(pixels / (vw_ * nv) * nv) * cost_of_vector(nv) + rest;
  }

  double cost_of_vector(int64_t nv) const {
    if (!wide_) return nv == 1 ? 1.2 : 1;
    return nv == 1 ? 1.4 : nv == 2 ? 1.2 : nv == 3 ? 1.03 : 1;
  }

  // An estimate for all groups: two products a cycle, two cycles for each vector of 16 that is copied and eight of 8
  // (as measured: few are read from a line before the next page), three for each row.
  double cycles() const {
    const int64_t columns = std::min(16 * row_.at("QT"), walk_[2]),
                  rows = row_.at("NI") * std::min(row_.at("QH"), walk_[1]);
    const int64_t channels = std::min(16 * row_.at("NO"), p_.OG), mr = row_.at("MR");
    const double multiply = 0.5 * vectors(rows * columns) * static_cast<double>(round_up(channels, mr)),
                 copy = (wide_ ? 2 : 8) * static_cast<double>(rows * columns) / static_cast<double>(vw_) +
                        3.0 * static_cast<double>(rows);
    // Weights that are copied: MR of a channel of src in two cycles.
    const double weights = p_.w_o1 ? 2.0 * static_cast<double>(ceil_div(channels, mr)) : 0;
    const double group = static_cast<double>(depth_) * (multiply + copy + weights) + 1000;
    const auto part = [](int64_t all, int64_t of) { return static_cast<double>(all) / static_cast<double>(of); };
    const double shares =
        part(p_.G * walk_[0] * walk_[1] * p_.N, rows) * part(walk_[2], columns) * part(p_.OG, channels);
    const int64_t groups = p_.G * walk_[0] * ceil_div(walk_[1], row_.at("QH")) *
                           ceil_div(walk_[2], 16 * row_.at("QT")) * ceil_div(p_.N, row_.at("NI")) *
                           ceil_div(p_.OG, 16 * row_.at("NO"));
    if (groups <= cores_) return group;
    return group * (shares / static_cast<double>(cores_) + (groups % cores_ == 0 && groups <= 2 * cores_ ? 0.1 : 0.5));
  }

  const ConvProblem& p_;
  const bool wide_;
  const int64_t vw_;
  const Extent3& walk_;
  const int64_t depth_;
  int64_t cores_;
  Row row_, best_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

Bindings pick_pointwise(const Caps& caps, const ConvProblem& p) { return Panels(caps, p).pick(); }

}  // namespace heddle
