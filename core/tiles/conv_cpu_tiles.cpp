#include "heddle/core/tiles/conv_cpu_tiles.h"

#include <algorithm>
#include <limits>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/conv_pointwise.h"
#include "heddle/core/tiles/conv_schedules.h"
#include "heddle/core/tiles/conv_winograd.h"
#include "heddle/core/tiles/cpu_registers.h"

namespace heddle {

namespace {

using conv_schedules::most_floats;
using conv_schedules::Row;

// Positions of dst that are walked side by side along one dimension: all, or in an input gradient those of one phase.
int64_t walked(const ConvProblem& p, size_t d) {
  return p.kind == ConvProblem::Kind::input_grad ? ceil_div(p.out[d], p.stride[d]) : p.out[d];
}
int64_t phases(const ConvProblem& p, size_t d) { return p.kind == ConvProblem::Kind::input_grad ? p.stride[d] : 1; }

// Elements of src between the first and the last of `count` positions, as packed.
int64_t packed_extent(const ConvProblem& p, size_t d, int64_t count) {
  return (count - 1) * p.stride[d] + (p.kernel[d] - 1) * p.dilation[d] + 1;
}

constexpr int64_t cached_floats = 48 << 10;  // what a core's second-level cache holds beside other things

// The number of pixels in registers that leaves the fewest unused in a row, the largest of those.
int64_t pixels_in_registers(int64_t row, int64_t most, bool wide) {
  int64_t best = 1, least = INT64_MAX;
  for (int64_t mr = 1; mr <= most; ++mr) {
    const int64_t blocks = ceil_div(row, mr), unused = blocks * mr - row;
    // Few pixels cost as much as many: a loop of fewer than 8 sums waits for its results.
    const int64_t cost = wide ? unused * 16 + (mr < 8 ? blocks * (8 - mr) * 2 : 0) : narrow_blocks_cost(row, mr);
    if (cost <= least) {
      least = cost;
      best = mr;
    }
  }
  return best;
}

class PackedRow {
 public:
  PackedRow(const Caps& caps, const ConvProblem& p) : p_(p), wide_(has_wide_registers(caps)) {
    const int64_t threads = std::max<int64_t>(1, caps.compute_units), weights = p.G * p.OG * p.CG * conv_taps(p),
                  pixels =
                      p.N * walked(p, 0) * walked(p, 1) * walked(p, 2) * phases(p, 0) * phases(p, 1) * phases(p, 2);
    wanted_ = is_small_work(weights * pixels, weights, threads) ? 1 : 2 * threads;
  }

  Row pick() {
    const int64_t row = walked(p_, 2), rows_of_image = walked(p_, 1);
    row_["SCHEDULE"] = conv_schedules::packed;
    const int64_t sums = wide_ ? 14 : 6;
    row_["VW"] = wide_ && p_.OG >= 16 ? 16 : p_.OG >= 8 ? 8 : 4;
    mr_ = pixels_in_registers(row, sums, wide_);
    mi_ = 2 * mr_ > sums ? 1 : choice_at_most("conv", "MI", std::min<int64_t>(p_.N, sums / mr_));
    nv_ = p_.OG > row_["VW"] ? 2 : 1;
    qt_ = conv_schedules::at_most(ceil_div(row, mr_), {1, 2, 4, 8, 16});
    qh_ = choice_at_most("conv", "QH", std::min<int64_t>(rows_of_image, 28));
    // A kernel of one position does little work for each packed pixel: all channels of dst share the packing.
    const int64_t blocks = ceil_div(p_.OG, nv_ * row_["VW"]);
    nb_ = conv_taps(p_) == 1 && p_.kind == ConvProblem::Kind::forward
              ? conv_schedules::at_most(blocks, {1, 2, 3, 4, 6, 8, 16})
              : choice_at_most("conv", "NB", std::min<int64_t>(blocks, wide_ ? 4 : 8));
    cb_ = choice_at_least("conv", "CB",
                          std::min<int64_t>(p_.CG, conv_taps(p_) == 1   ? 128
                                                   : conv_taps(p_) <= 9 ? 64
                                                                        : 16));
    ni_ = mi_;
    shrink();
    grow_images();
    row_["MR"] = mr_;
    row_["MI"] = mi_;
    row_["NV"] = nv_;
    row_["NB"] = nb_;
    row_["QT"] = qt_;
    row_["QH"] = qh_;
    row_["NI"] = ni_;
    row_["CB"] = cb_;
    return row_;
  }

 private:
  int64_t staged() const { return ni_ * cb_ * packed_extent(p_, 1, qh_) * packed_extent(p_, 2, qt_ * mr_); }
  int64_t results() const { return ni_ * qh_ * qt_ * mr_ * nb_ * nv_ * row_.at("VW") * phases(p_, 1) * phases(p_, 2); }
  int64_t weights() const { return p_.kernel[1] * p_.kernel[2] * cb_ * nv_ * row_.at("VW"); }
  int64_t groups() const {
    return p_.G * ceil_div(p_.OG, nb_ * nv_ * row_.at("VW")) * ceil_div(p_.N, ni_) * p_.out[0] *
           ceil_div(walked(p_, 1), qh_) * ceil_div(walked(p_, 2), qt_ * mr_);
  }

  static int64_t halve(int64_t value) { return std::max<int64_t>(1, value / 2); }

  // Until the arrays fit the cache and there is work for every core.
  void shrink() {
    while (cb_ > 4 && weights() > most_floats) cb_ /= 2;
    while (true) {
      const bool large = staged() > 2 * cached_floats || results() > 2 * cached_floats || groups() < wanted_;
      const bool too_large = staged() > most_floats || results() > most_floats;
      if (!large) return;
      if (qh_ > 4)
        qh_ = choice_at_most("conv", "QH", qh_ - 1);
      else if (too_large && qt_ > 1)
        qt_ = halve(qt_);
      else if (too_large && qh_ > 1)
        qh_ = halve(qh_);
      else if (too_large && nb_ > 1)
        --nb_;
      else if (too_large && cb_ > 4)
        cb_ /= 2;
      else if (too_large && mi_ > 1)
        ni_ = mi_ = 1;
      else
        return;
    }
  }

  // Small images share a packing of the weights.
  void grow_images() {
    for (int64_t ni : {2, 4, 8}) {
      if (ni <= ni_ || ni % mi_ != 0 || ni > p_.N || qh_ < walked(p_, 1)) continue;
      const int64_t before = ni_;
      ni_ = ni;
      if (staged() > 2 * cached_floats || results() > 2 * cached_floats || groups() < wanted_) {
        ni_ = before;
        return;
      }
    }
  }

  const ConvProblem& p_;
  const bool wide_;
  int64_t wanted_;  // groups
  Row row_;
  int64_t mr_ = 1, mi_ = 1, nv_ = 1, nb_ = 1, qt_ = 1, qh_ = 1, ni_ = 1, cb_ = 16;
};

Row pick_rows(const Caps& caps, const ConvProblem& p) {
  Row row{{"SCHEDULE", conv_schedules::rows},
          {"VW", register_width(caps)},
          {"QT", choice_at_least("conv", "QT", std::min<int64_t>(ceil_div(walked(p, 2), 16), 16))},
          {"QH", choice_at_least("conv", "QH", std::min<int64_t>(walked(p, 1), 16))}};
  while (row["QT"] > 1 && packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QT"] * 16) > cached_floats)
    row["QT"] = choice_at_most("conv", "QT", row["QT"] / 2);
  if (packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QT"] * 16) > cached_floats) row["QH"] = 1;
  if (packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QT"] * 16) > most_floats)
    return conv_schedules::any_lanes;
  return row;
}

// Does the body read planes where they lie (shaders/conv_in_place.hki)? Rows without a gap are for it to find out.
bool reads_in_place(const ConvProblem& p) {
  return p.x_w1 && p.kernel[0] == 1 && (p.stride[2] == 2 || (p.stride == Extent3{1, 1, 1} && p.in[2] == p.out[2]));
}

// Rows that a group computes at once, by the body's blocks of rows: few beyond the last one, and few that are copied
// twice.
int64_t rows_of_strips(const ConvProblem& p) {
  if (reads_in_place(p)) return choice_at_least("conv", "QH", std::min<int64_t>(p.out[1], 56));
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (const int64_t qh : {1, 2, 4, 7, 8, 14, 16}) {
    const int64_t block = qh % 7 == 0 ? 7 : std::min<int64_t>(qh, 4);
    const double group = static_cast<double>(round_up(qh, block)) + 0.3 * static_cast<double>(packed_extent(p, 1, qh));
    const double cost = group * static_cast<double>(ceil_div(p.out[1], qh));
    if (cost <= least) {
      least = cost;
      best = qh;
    }
  }
  return best;
}

// Vectors along the width and blocks of rows in registers, some channels a group. Rows of at most 8 fill half a vector,
// which takes a fifth longer; but only kernels of one width can share a launch (core/run/chains.h), which for one image
// is worth more.
Row pick_strips(const Caps& caps, const ConvProblem& p) {
  const int64_t cores = std::max<int64_t>(1, caps.compute_units);
  Row row{{"SCHEDULE", conv_schedules::strips},
          {"VW", p.out[2] <= 8 && p.N > 1 && !(reads_in_place(p) && p.stride[2] == 1) ? 8 : register_width(caps)},
          {"QT", choice_at_least("conv", "QT", std::min<int64_t>(ceil_div(p.out[2], 16), 16))},
          {"QH", rows_of_strips(p)}};
  const auto staged = [&] { return packed_extent(p, 1, row["QH"]) * (packed_extent(p, 2, row["QT"] * 16) + 16); };
  while (row["QT"] > 1 && staged() > cached_floats) row["QT"] = choice_at_most("conv", "QT", row["QT"] / 2);
  while (row["QH"] > 1 && staged() > cached_floats) row["QH"] = choice_at_most("conv", "QH", row["QH"] / 2);
  const int64_t blocks =
      p.N * p.out[0] * ceil_div(p.out[1], row["QH"]) * ceil_div(p.out[2], row["QT"] * 16) * p.G * p.OG;
  row["NO"] = choice_at_most("conv", "NO", std::max<int64_t>(1, blocks / (16 * cores)));
  return row;
}

// Few pixels of long sums: each weight is used so few times that copying it costs as much as using it.
constexpr int64_t few_pixels = 8;

bool has_few_pixels(const ConvProblem& p) {
  return p.kind == ConvProblem::Kind::forward && p.w_k1 && p.w_c1 && p.kernel[0] == 1 &&
         p.N * p.out[0] * p.out[1] * p.out[2] <= few_pixels && p.CG * conv_taps(p) >= 16;
}

Row pick_dots(const Caps& caps, const ConvProblem& p) {
  const int64_t cores = std::max<int64_t>(1, caps.compute_units);
  const int64_t pixels = p.N * p.out[0] * p.out[1] * p.out[2];
  const auto rows_of_weights = [&](int64_t most) { return std::min(most, register_sums(caps) / pixels); };
  Row row{{"SCHEDULE", conv_schedules::dots},
          {"VW", register_width(caps)},
          {"NV", rows_of_weights(2)},
          {"MR", pixels},
          {"W_K1", 1},
          {"W_C1", 1}};
  row["CB"] = choice_at_least("conv", "CB", std::max<int64_t>(p.CG, 4));
  while (row["CB"] > 4 && row["MR"] * row["CB"] * conv_taps(p) > cached_floats) row["CB"] /= 2;
  // Each group copies the pixels: a few for each core, that they finish together. What takes less time than another
  // thread needs to wake up is one group's, as far as it goes.
  const int64_t weights = p.G * p.OG * p.CG * conv_taps(p);
  const bool small = is_small_work(weights * row["MR"], weights, cores);
  if (small) row["NV"] = rows_of_weights(4);
  row["NO"] = choice_at_most("conv", "NO", std::max<int64_t>(1, ceil_div(p.OG, (small ? 1 : 2 * cores) * row["NV"])));
  return row;
}

// As many sums as fit the registers beside what they are made of: of two channels of grad, as each pixel that is loaded
// then serves two products.
Row pick_grad_rows(const Caps& caps, const ConvProblem& p) {
  const int64_t sums = register_sums(caps);
  Row row{{"SCHEDULE", conv_schedules::rows}, {"VW", p.out[2] > 8 ? register_width(caps) : 8}};
  const int64_t width = p.kernel[2];
  row["MR"] = p.OG > 1 && 2 * width <= sums ? 2 : 1;
  row["KB"] = choice_at_most("conv_weight_grad", "KB", std::clamp<int64_t>(sums / (row["MR"] * width), 1, p.kernel[1]));
  row["NB"] = choice_at_least("conv_weight_grad", "NB", std::min<int64_t>(ceil_div(p.OG, row["MR"]), 16));
  row["CB"] = choice_at_least("conv_weight_grad", "CB", std::min<int64_t>(p.CG, 4));
  while (row["NB"] > 1 && row["NB"] * row["MR"] * row["CB"] * p.kernel[1] * width * row["VW"] > cached_floats / 2)
    row["NB"] /= 2;
  row["QW"] = row["VW"];
  while (row["QW"] < std::min<int64_t>(p.out[2], 128)) row["QW"] *= 2;
  row["QH"] = choice_at_most("conv_weight_grad", "QH", std::clamp<int64_t>(p.out[1], 1, 28));
  const auto staged = [&] { return row["CB"] * packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QW"]); };
  while (row["QH"] > 1 && staged() > 8 << 10) row["QH"] = choice_at_most("conv_weight_grad", "QH", row["QH"] - 1);
  return row;
}

// One channel of src by one of grad: some rows at a time, whose copies fit the first cache, of channels that leave some
// groups for each core.
Row pick_planes(const Caps& caps, const ConvProblem& p) {
  constexpr int64_t first_cache_floats = 6 << 10;
  const int64_t cores = std::max<int64_t>(1, caps.compute_units);
  Row row{{"SCHEDULE", conv_schedules::planes}, {"VW", p.out[2] > 8 || p.stride[2] == 1 ? register_width(caps) : 8}};
  const int64_t sums = p.kernel[1] * p.kernel[2] * row["VW"];
  const int64_t channels = std::min(p.parts * p.G * p.OG / (8 * cores), first_cache_floats / 2 / sums);
  row["NB"] = choice_at_most("conv_weight_grad", "NB", std::max<int64_t>(1, channels));
  row["QW"] = choice_at_least("conv_weight_grad", "QW", std::min<int64_t>(p.out[2], 128));
  row["QH"] = choice_at_least("conv_weight_grad", "QH", std::clamp<int64_t>(p.out[1], 1, 56));
  const auto copied = [&] {
    return packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QW"]) + row["QH"] * row["QW"];
  };
  while (row["QH"] > 1 && copied() > first_cache_floats)
    row["QH"] = choice_at_most("conv_weight_grad", "QH", row["QH"] - 1);
  return row;
}

// Planes of which a piece is long beside the adding up of its vectors: no operand is copied then.
bool has_long_planes(const ConvProblem& p) {
  constexpr int64_t long_plane = 768;
  return p.flat && p.out[0] * p.out[1] * p.out[2] >= long_plane;
}

// Sums in all registers but those of a vector of grad and NV of src. The other way round, 3 by 4, the loop took 1.3
// times as long with AVX2.
Row pick_grad_dots(const Caps& caps, const ConvProblem& p) {
  const bool wide = has_wide_registers(caps);
  Row row{{"SCHEDULE", conv_schedules::dots}, {"VW", register_width(caps)}, {"FLAT", 1}};
  row["MR"] = wide ? 6 : 4;
  row["NV"] = wide ? 4 : 3;
  row["NB"] = choice_at_least("conv_weight_grad", "NB", std::min<int64_t>(ceil_div(p.OG, row["MR"]), 16));
  row["CB"] = choice_at_least("conv_weight_grad", "CB", std::min<int64_t>(p.CG, 64));
  row["QW"] = 32;
  return row;
}

// Many weights for each pixel: they are read as they lie, once.
bool has_short_panels(const ConvProblem& p) {
  return p.kind == ConvProblem::Kind::forward && p.w_c1 && p.OG >= 128 && p.N * p.out[0] * p.out[1] * p.out[2] <= 64;
}

// So few channels of src that a panel of all that results are made of is copied in less time than results are turned.
// Measured with AVX2 alone.
bool has_few_sources(const Caps& caps, const ConvProblem& p) {
  return !has_wide_registers(caps) && p.kind == ConvProblem::Kind::forward && p.w_c1 && p.CG <= 4 && p.kernel[0] == 1;
}

// Does the body take these values? A kernel or dilation of extreme size fits no packed array.
bool accepted(const char* body, const ConvProblem& p, Row row) {
  add_conv_facts(row, p);
  if (row.at("SCHEDULE") == conv_schedules::pointwise) add_pointwise_facts(row, p);
  return KernelFile::builtin(body).refusal(row).empty();
}

// Channels of src of a group, of kernels with one position: as many as leave the cores about the same work.
int64_t even_channels(const Caps& caps, const ConvProblem& p) {
  const int64_t others = p.parts * p.G * ceil_div(p.OG, int64_t{96}), cores = std::max<int64_t>(1, caps.compute_units);
  int64_t best = 0, least = 0;
  for (const int64_t cb : {128, 96, 64}) {
    const int64_t groups = others * ceil_div(p.CG, cb), busiest = ceil_div(groups, cores) * std::min(cb, p.CG);
    if (best > 0 && 20 * busiest >= 19 * least) continue;  // more groups copy the gradient more often
    best = cb;
    least = busiest;
  }
  return best;
}

}  // namespace

Bindings pick_conv_on_cpu(const Caps& caps, const ConvProblem& p) {
  if (has_few_pixels(p)) {
    if (const Row row = pick_dots(caps, p); accepted("conv", p, row)) return row;
  }
  if (p.OG < few_channels && p.kind == ConvProblem::Kind::forward) {
    if (const Row row = pick_strips(caps, p); accepted("conv", p, row)) return row;
  }
  if (p.OG < few_channels) return pick_rows(caps, p);
  if (const auto row = pick_winograd(caps, p); row && accepted("conv", p, *row)) return *row;
  if (p.OG >= 16 && (conv_taps(p) == 1 || has_short_panels(p) || has_few_sources(caps, p))) {
    if (const Row row = pick_pointwise(caps, p); accepted("conv", p, row)) return row;
  }
  const Row row = PackedRow(caps, p).pick();
  return accepted("conv", p, row) ? row : conv_schedules::any_lanes;
}

Bindings pick_conv_weight_grad_on_cpu(const Caps& caps, const ConvProblem& p) {
  if (const auto row = pick_winograd(caps, p); row && accepted("conv_weight_grad", p, *row)) return *row;
  if (has_long_planes(p)) {
    if (const Row row = pick_grad_dots(caps, p); accepted("conv_weight_grad", p, row)) return row;
  }
  if (p.CG == 1 && p.OG == 1 && p.kernel[1] * p.kernel[2] <= register_sums(caps)) {
    if (const Row row = pick_planes(caps, p); accepted("conv_weight_grad", p, row)) return row;
  }
  if (p.CG < few_channels || p.OG < few_channels) {
    const Row row = pick_grad_rows(caps, p);
    // Packed vectors hold the width of the kernel too: two or three channels win where its positions are summed in one
    // pass, over rows that fill a vector.
    const bool wins = p.CG == 1 || p.OG < few_channels || (row.at("KB") == p.kernel[1] && p.out[2] > 8);
    if (wins && accepted("conv_weight_grad", p, row)) return row;
    if (p.OG < few_channels) return conv_schedules::any_lanes;
  }
  const int64_t cb = conv_taps(p) == 1 && p.CG > 64
                         ? even_channels(caps, p)
                         : choice_at_least("conv_weight_grad", "CB", std::min<int64_t>(p.CG, 64));
  const int64_t vw = register_width(caps);
  Row row{{"SCHEDULE", conv_schedules::packed}, {"VW", vw}, {"CB", cb}};
  const int64_t joined = p.dilation[2] == 1 || p.kernel[2] == 1 ? p.kernel[2] * cb : cb;
  row["NV"] = joined % (3 * vw) == 0 ? 3 : joined > vw ? 2 : 1;
  row["MR"] = has_wide_registers(caps) ? 8 : row["NV"] == 3 ? 4 : 6;
  row["NB"] = choice_at_least("conv_weight_grad", "NB", std::min<int64_t>(ceil_div(p.OG, row["MR"]), 16));
  row["QW"] = choice_at_least("conv_weight_grad", "QW", std::min<int64_t>(p.out[2], 128));
  row["QH"] =
      choice_at_least("conv_weight_grad", "QH", std::min<int64_t>(p.out[1], std::max<int64_t>(1, 224 / row["QW"])));
  const auto staged = [&] { return packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QW"]) * row["CB"]; };
  while (row["QH"] > 1 && staged() > 2 * cached_floats)
    row["QH"] = row["QH"] == 7 ? 4 : row["QH"] == 14 ? 8 : row["QH"] / 2;
  while (row["CB"] > 16 && p.kernel[1] * p.kernel[2] * row["CB"] * 64 > most_floats / 2) row["CB"] /= 2;
  return accepted("conv_weight_grad", p, row) ? row : conv_schedules::any_lanes;
}

}  // namespace heddle
