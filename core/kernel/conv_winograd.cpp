#include "core/kernel/conv_winograd.h"

#include <algorithm>

namespace heddle {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t at_most(int64_t value, std::initializer_list<int64_t> choices) {
  int64_t best = *choices.begin();
  for (int64_t c : choices) {
    if (c <= value) best = c;
  }
  return best;
}

int64_t at_least(int64_t value, std::initializer_list<int64_t> choices) {
  for (int64_t c : choices) {
    if (c >= value) return c;
  }
  return *(choices.end() - 1);
}

bool is_winograds(const ConvProblem& p) {
  const Extent3 kernel{1, 3, 3}, ones{1, 1, 1};
  return p.kernel == kernel && p.stride == ones && p.dilation[1] == 1 && p.dilation[2] == 1 && arith(p.x) == DType::f32 && arith(p.w) == DType::f32;
}

// Cycles of a core with vectors of 16 floats, as measured, for one vector of channels of dst and one channel of src.
constexpr double tile_products = 18, pixel_products = 4.5;  // 36 products of a tile, and 9 of a pixel, two a cycle
constexpr double tile_pixels = 19;                          // the transform of a tile's pixels, in all and not for each vector of channels of dst
constexpr double tile_results = 250;                        // the transform of a tile's results, in all and not for each channel of src
constexpr double kernel_transform = 150;

constexpr int64_t most_source = 655360;  // floats of transformed pixels: the body's own limit
constexpr int64_t most_tiles = 112;

class WinogradRow {
 public:
  WinogradRow(const Caps& caps, const ConvProblem& p) : p_(p), cores_(std::max<int64_t>(1, caps.compute_units)) {}

  std::optional<Bindings> pick() {
    if (p_.OG < 16 || p_.CG < 16 || p_.N == 0) return std::nullopt;
    cb_ = p_.CG >= 256 ? 64 : 32;
    kb_ = at_least(ceil_div(p_.CG, cb_), {1, 2, 4, 8, 16});
    nb_ = p_.OG > 32 ? 2 : 1;
    tiles_of_group();
    while (groups(1) < cores_ && (ni_ > 1 || qh_ > 1)) (ni_ > 1 ? ni_ : qh_) = (ni_ > 1 ? ni_ : qh_) / 2;
    double best = 0;
    for (const int64_t no : {1, 2, 4, 8, 16}) {
      if (const double time = cycles(no); best == 0 || time < best) {
        best = time;
        no_ = no;
      }
    }
    const double direct = pixel_products * static_cast<double>(p_.N * p_.G * p_.out[0] * p_.out[1] * p_.out[2] * p_.CG * ceil_div(p_.OG, 16)) / static_cast<double>(cores_);
    if (best > 0.8 * direct) return std::nullopt;
    return Bindings{{"SCHEDULE", 5}, {"VW", 16}, {"MR", rows()}, {"NV", 2}, {"NB", nb_}, {"CB", cb_}, {"KB", kb_}, {"NO", no_}, {"QH", qh_}, {"QT", qt_}, {"NI", ni_}};
  }

 private:
  int64_t t_h() const { return ceil_div(p_.out[1], 4); }
  int64_t t_w() const { return ceil_div(p_.out[2], 4); }
  int64_t tiles() const { return ni_ * qh_ * qt_; }

  // As many as fit: each further tile shares the transform of the kernels.
  void tiles_of_group() {
    const int64_t most = std::min(most_tiles, most_source / (36 * cb_ * kb_));
    qt_ = at_least(ceil_div(t_w(), ceil_div(t_w(), 16)), {1, 2, 4, 7, 8, 14, 16});
    const int64_t highest = std::max<int64_t>(1, most / qt_);
    qh_ = at_most(std::min(highest, ceil_div(t_h(), ceil_div(t_h(), highest))), {1, 2, 4, 7, 8, 14, 16});
    ni_ = qh_ >= t_h() && qt_ >= t_w() ? at_most(std::min(p_.N, std::max<int64_t>(1, most / tiles())), {1, 2, 3, 4, 6, 8, 12, 16}) : 1;
  }

  // Tiles in registers: those that leave the fewest unused.
  int64_t rows() const {
    int64_t best = 8;
    for (const int64_t mr : {8, 9, 10, 11, 12, 13, 14}) {
      if (ceil_div(tiles(), mr) * mr <= ceil_div(tiles(), best) * best) best = mr;
    }
    return tiles() < 8 ? std::max<int64_t>(4, tiles()) : best;
  }

  int64_t groups(int64_t no) const {
    return p_.G * ceil_div(p_.OG, no * nb_ * 32) * p_.out[0] * ceil_div(p_.N, ni_) * ceil_div(t_h(), qh_) * ceil_div(t_w(), qt_);
  }

  double cycles(int64_t no) const {
    const int64_t passes = std::min(no, ceil_div(p_.OG, nb_ * 32)), vectors = passes * nb_ * 2;
    const double t = static_cast<double>(ceil_div(tiles(), rows()) * rows()), c = static_cast<double>(p_.CG), v = static_cast<double>(vectors);
    const double group = c * (t * tile_pixels + v * (t * tile_products + kernel_transform)) + t * v * tile_results;
    return group * static_cast<double>(ceil_div(groups(no), cores_));
  }

  const ConvProblem& p_;
  int64_t cores_;
  int64_t qh_ = 1, qt_ = 1, ni_ = 1, nb_ = 1, cb_ = 16, kb_ = 1, no_ = 1;
};

}  // namespace

std::optional<Bindings> pick_winograd(const Caps& caps, const ConvProblem& p) {
  if (!is_winograds(p)) return std::nullopt;
  if (p.kind == ConvProblem::Kind::weight_grad) return std::nullopt;
  return WinogradRow(caps, p).pick();
}

}  // namespace heddle
