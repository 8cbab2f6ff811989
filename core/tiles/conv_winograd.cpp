#include "heddle/core/tiles/conv_winograd.h"

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/conv_schedules.h"
#include "heddle/core/tiles/cpu_registers.h"

namespace heddle {
namespace {

bool suits(const ConvProblem& p) {
  const Extent3 kernel{1, 3, 3}, ones{1, 1, 1};
  return p.kernel == kernel && p.stride == ones && p.dilation[1] == 1 && p.dilation[2] == 1 &&
         arith(p.x) == DType::f32 && arith(p.w) == DType::f32 && p.winograd && p.OG >= 16 && p.CG >= 16 && p.N > 0;
}

// Cycles of a core, as measured with vectors of 16 floats, for one vector of channels of dst and one channel of src
// (weight gradients: a vector of channels of src and one of the gradient).
constexpr double tile_products = 18, pixel_products = 4.5;  // 36 products of a tile, and 9 of a pixel, two a cycle
constexpr double tile_transform = 304;    // of a tile's pixels (or gradients), for a vector of channels
constexpr double tile_results = 250;      // of a tile's results, for a vector of channels
constexpr double kernel_transform = 150;  // of a kernel

constexpr int64_t most_source = 655360;  // floats of transformed pixels: the bodies' own limit
constexpr int64_t most_grads = 262144;   // of transformed gradients
constexpr int64_t most_tiles = 112;
constexpr double worthwhile = 0.8;  // of the direct sum's time

double direct_cycles(const Caps& caps, const ConvProblem& p, int64_t cores) {
  const double pixels = static_cast<double>(p.N * p.out[0] * p.out[1] * p.out[2]);
  return pixel_products * pixels * static_cast<double>(p.G * p.CG) * static_cast<double>(p.OG) /
         static_cast<double>(register_width(caps) * cores);
}

// A block of tiles: of one row, several, or several images.
struct Block {
  int64_t images = 1, rows = 1, columns = 1;
  int64_t tiles() const { return images * rows * columns; }
};

int64_t tile_rows(const ConvProblem& p) { return ceil_div(p.out[1], 4); }
int64_t tile_columns(const ConvProblem& p) { return ceil_div(p.out[2], 4); }
int64_t blocks(const ConvProblem& p, const Block& b) {
  return p.out[0] * ceil_div(p.N, b.images) * ceil_div(tile_rows(p), b.rows) * ceil_div(tile_columns(p), b.columns);
}

// Tiles of a block that lies in the image.
int64_t used_tiles(const ConvProblem& p, const Block& b) {
  return std::min(b.images, p.N) * std::min(b.rows, tile_rows(p)) * std::min(b.columns, tile_columns(p));
}

const char* body(const ConvProblem& p) {
  return p.kind == ConvProblem::Kind::weight_grad ? "conv_weight_grad" : "conv";
}

// The largest with at most `most` tiles, as even as the choices allow.
Block largest_block(const ConvProblem& p, int64_t most) {
  Block b;
  b.columns = choice_at_least(body(p), "QT", ceil_div(tile_columns(p), ceil_div(tile_columns(p), 16)));
  if (b.columns > most) b.columns = choice_at_most(body(p), "QT", most);
  const int64_t highest = std::max<int64_t>(1, most / b.columns);
  b.rows = choice_at_least(body(p), "QH", std::min<int64_t>(tile_rows(p), 16));
  if (b.rows > highest || b.rows < tile_rows(p))
    b.rows = choice_at_most(body(p), "QH",
                            std::min({highest, ceil_div(tile_rows(p), ceil_div(tile_rows(p), highest)), int64_t{16}}));
  if (b.rows >= tile_rows(p) && b.columns >= tile_columns(p)) {
    b.images = choice_at_most(body(p), "NI", std::min(p.N, std::max<int64_t>(1, most / b.tiles())));
  }
  return b;
}

// About half as many tiles; false for a block of one row of tiles.
bool halve(const ConvProblem& p, Block& b) {
  if (b.images == 1 && b.rows == 1) return false;
  if (b.images > 1) {
    b.images = choice_at_most(body(p), "NI", b.images / 2);
  } else {
    b.rows = choice_at_most(body(p), "QH", b.rows / 2);
  }
  return true;
}

class WinogradRow {
 public:
  WinogradRow(const Caps& caps, const ConvProblem& p)
      : caps_(caps), p_(p), vw_(register_width(caps)), cores_(std::max<int64_t>(1, caps.compute_units)) {}

  std::optional<Bindings> pick() {
    cb_ = p_.CG >= 256 ? 64 : 32;
    kb_ = choice_at_least("conv", "KB", ceil_div(p_.CG, cb_));
    nb_ = p_.OG <= width() ? 1 : p_.OG <= 32 || has_wide_registers(caps_) ? 2 : 4;
    // Each further tile shares the transform of the kernels.
    block_ = largest_block(p_, std::min(most_tiles, most_source / (36 * cb_ * kb_)));
    while (groups(1) < cores_ && halve(p_, block_)) {
    }
    double best = 0;
    for (const int64_t no : {1, 2, 4, 8, 16}) {
      if (const double time = cycles(no); best == 0 || time < best) {
        best = time;
        no_ = no;
      }
    }
    if (best > worthwhile * direct_cycles(caps_, p_, cores_)) return std::nullopt;
    return Bindings{{"SCHEDULE", conv_schedules::winograd},
                    {"VW", vw_},
                    {"MR", rows()},
                    {"NV", 2},
                    {"NB", nb_},
                    {"CB", cb_},
                    {"KB", kb_},
                    {"NO", no_},
                    {"QH", block_.rows},
                    {"QT", block_.columns},
                    {"NI", block_.images}};
  }

 private:
  int64_t width() const { return 2 * vw_; }  // channels of dst in registers

  // Tiles in registers: those that leave the fewest unused.
  int64_t rows() const {
    const bool wide = has_wide_registers(caps_);
    const int64_t tiles = used_tiles(p_, block_), least = wide ? 8 : 4, most = wide ? 14 : 6;
    int64_t best = least;
    for (int64_t mr = least; mr <= most; ++mr) {
      if (ceil_div(tiles, mr) * mr <= ceil_div(tiles, best) * best) best = mr;
    }
    return tiles < least ? std::max<int64_t>(4, tiles) : best;
  }

  int64_t groups(int64_t no) const { return p_.G * ceil_div(p_.OG, no * nb_ * width()) * blocks(p_, block_); }

  double cycles(int64_t no) const {
    const int64_t passes = std::min(no, ceil_div(p_.OG, nb_ * width()));
    const double v = static_cast<double>(passes * nb_ * 2), c = static_cast<double>(p_.CG),
                 t = static_cast<double>(ceil_div(used_tiles(p_, block_), rows()) * rows());
    const double group =
        c * (t * tile_transform / static_cast<double>(vw_) + v * (t * tile_products + kernel_transform)) +
        t * v * tile_results;
    return group * static_cast<double>(ceil_div(groups(no), cores_));
  }

  const Caps& caps_;
  const ConvProblem& p_;
  const int64_t vw_;
  int64_t cores_;
  Block block_;
  int64_t nb_ = 1, cb_ = 32, kb_ = 1, no_ = 1;
};

class WinogradWeightRow {
 public:
  WinogradWeightRow(const Caps& caps, const ConvProblem& p)
      : caps_(caps), p_(p), vw_(register_width(caps)), cores_(std::max<int64_t>(1, caps.compute_units)) {}

  std::optional<Bindings> pick() {
    cb_ = p_.CG > 32 ? 64 : p_.CG > 16 ? 32 : 16;
    nb_ = p_.OG > 32 ? 8 : p_.OG > 16 ? 4 : 2;
    nc_ = choice_at_least("conv_weight_grad", "NC", ceil_div(p_.CG, cb_));
    no_ = choice_at_least("conv_weight_grad", "NO", ceil_div(p_.OG, nb_ * 8));
    const int64_t most = std::min({most_source / (36 * cb_ * nc_), most_grads / (36 * nb_ * 8), most_tiles});
    const bool single = nc_ == 1 && no_ == 1;
    // Several passes share what they transform, so a part is one block; a single one adds its blocks up in the cache.
    block_ = largest_block(p_, single ? std::min<int64_t>(most, 64) : most);
    while (blocks(p_, block_) * p_.G * ceil_div(p_.OG, nb_ * 8) < cores_ && halve(p_, block_)) {
    }
    const int64_t bytes = p_.G * p_.OG * p_.CG * 9 * 4, all = blocks(p_, block_);
    parts_ = std::min({all, std::max<int64_t>(2 * cores_, (int64_t{32} << 20) / bytes), int64_t{64}});
    if (single) parts_ = std::min(parts_, ceil_div(2 * cores_, p_.G));
    while (parts_ * p_.G * ceil_div(p_.OG, no_ * nb_ * 8) * ceil_div(p_.CG, nc_ * cb_) < cores_ && no_ > 1) no_ /= 2;
    if (cycles() > worthwhile * direct_cycles(caps_, p_, cores_)) return std::nullopt;
    // Blocks of 8 gradients: at once, or four at a time.
    const int64_t rows = has_wide_registers(caps_) ? 8 : 4;
    return Bindings{{"SCHEDULE", conv_schedules::winograd},
                    {"VW", vw_},
                    {"MR", rows},
                    {"NV", cb_ >= 2 * vw_ ? 2 : 1},
                    {"NB", nb_ * 8 / rows},
                    {"CB", cb_},
                    {"NC", nc_},
                    {"NO", no_},
                    {"QH", block_.rows},
                    {"QT", block_.columns},
                    {"NI", block_.images}};
  }

  int64_t parts() const { return parts_; }

 private:
  double cycles() const {
    const int64_t part_blocks = ceil_div(blocks(p_, block_), parts_);
    const int64_t o_passes = std::min(no_, ceil_div(p_.OG, nb_ * 8)), c_passes = std::min(nc_, ceil_div(p_.CG, cb_));
    const double passes = static_cast<double>(o_passes * c_passes), o = static_cast<double>(nb_ * 8),
                 c = static_cast<double>(cb_);
    const double t = static_cast<double>(used_tiles(p_, block_) * part_blocks);
    const double transformed =
        part_blocks <= 1 ? static_cast<double>(o_passes) * o + static_cast<double>(c_passes) * c : passes * (o + c);
    const auto width = static_cast<double>(vw_);
    const double group =
        t * transformed * tile_transform / width + passes * o * c / width * (t * tile_products + kernel_transform);
    const int64_t groups = parts_ * p_.G * ceil_div(p_.OG, no_ * nb_ * 8) * ceil_div(p_.CG, nc_ * cb_);
    return group * static_cast<double>(ceil_div(groups, cores_));
  }

  const Caps& caps_;
  const ConvProblem& p_;
  const int64_t vw_;
  int64_t cores_;
  Block block_;
  int64_t nb_ = 1, cb_ = 32, nc_ = 1, no_ = 1, parts_ = 1;
};

}  // namespace

std::optional<Bindings> pick_winograd(const Caps& caps, const ConvProblem& p) {
  if (!suits(p)) return std::nullopt;
  if (p.kind == ConvProblem::Kind::weight_grad) return WinogradWeightRow(caps, p).pick();
  return WinogradRow(caps, p).pick();
}

int64_t pick_winograd_parts(const Caps& caps, const ConvProblem& p) {
  if (!suits(p)) return 0;
  WinogradWeightRow row(caps, p);
  return row.pick() ? row.parts() : 0;
}

}  // namespace heddle
