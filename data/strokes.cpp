// The embedded data set. All geometry is fixed-point integer arithmetic, so that every platform draws the same bytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/philox.h"
#include "heddle/data/datasets.h"

namespace heddle::data {
namespace {

constexpr int side = 28;
constexpr int64_t one = 1 << 16;   // 1.0 of the unit box in which digits are designed
constexpr int64_t pixel = 1 << 8;  // one pixel on the canvas
constexpr int64_t full_turn = 1 << 16;

struct Point {
  int64_t x = 0, y = 0;
};
using Path = std::vector<Point>;
using Glyph = std::vector<Path>;

// Random numbers of one image: words of Philox, in order.
class Draw {
 public:
  Draw(uint64_t seed, uint32_t split, uint64_t image)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, static_cast<uint32_t>(image), static_cast<uint32_t>(image >> 32), split} {}
  uint32_t word() {
    if (left_ == 0) {
      words_ = philox(counter_, key_);
      ++counter_[0];
      left_ = 4;
    }
    return words_[--left_];
  }
  // Uniform in [low, high].
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(static_cast<uint64_t>(word()) * static_cast<uint64_t>(high - low + 1) >> 32);
  }
  // Closer to 0 than to the ends: the sum of two uniform numbers, in [-reach, reach].
  int64_t around_zero(int64_t reach) { return (between(-reach, reach) + between(-reach, reach)) / 2; }
  bool chance(int64_t percent) { return between(0, 99) < percent; }

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> words_{};
  int left_ = 0;
};

// Bhaskara's rational sine, within 0.2 %: turns in 1/65536, result in 1/32768.
int64_t sine(int64_t turns) {
  const int64_t half = full_turn / 2;
  const int64_t t = ((turns % full_turn) + full_turn) % full_turn;
  const int64_t u = t % half;
  const int64_t p = u * (half - u);
  const int64_t value = 16 * p * 32768 / (5 * half * half - 4 * p);
  return t < half ? value : -value;
}
int64_t cosine(int64_t turns) { return sine(turns + full_turn / 4); }

int64_t root(int64_t square) {
  int64_t r = 0;
  for (int64_t bit = int64_t{1} << 24; bit > 0; bit >>= 1) {
    if ((r + bit) * (r + bit) <= square) r += bit;
  }
  return r;
}

// Designs are written in hundredths of the box, angles in degrees: 0 points right, 90 down.
int64_t hundredths(int64_t v) { return v * one / 100; }

// A polyline, cut into short pieces so that the elastic waves bend it.
Path line(std::initializer_list<std::array<int, 2>> corners) {
  constexpr int pieces = 4;
  Path path;
  for (const auto& corner : corners) {
    const Point to{hundredths(corner[0]), hundredths(corner[1])};
    if (path.empty()) {
      path.push_back(to);
      continue;
    }
    const Point from = path.back();
    for (int i = 1; i <= pieces; ++i)
      path.push_back({from.x + (to.x - from.x) * i / pieces, from.y + (to.y - from.y) * i / pieces});
  }
  return path;
}

Path arc(int cx, int cy, int rx, int ry, int from, int to) {
  const int pieces = std::max(4, std::abs(to - from) / 24);
  Path path;
  for (int i = 0; i <= pieces; ++i) {
    const int64_t turns = (from * int64_t{pieces} + (to - from) * int64_t{i}) * full_turn / (360 * pieces);
    path.push_back({hundredths(cx) + hundredths(rx) * cosine(turns) / 32768,
                    hundredths(cy) + hundredths(ry) * sine(turns) / 32768});
  }
  return path;
}

Path join(Path a, const Path& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Several ways to write each digit.
const std::array<std::vector<Glyph>, 10>& glyphs() {
  static const std::array<std::vector<Glyph>, 10> table = {{
      {{arc(50, 50, 30, 45, 0, 360)},
       {arc(50, 50, 20, 44, 0, 360)},
       {arc(50, 52, 28, 40, -70, 270)},
       {arc(50, 50, 36, 38, -100, 280)}},
      {{line({{50, 5}, {50, 95}})},
       {line({{32, 25}, {52, 5}, {52, 95}})},
       {line({{34, 22}, {50, 5}, {50, 94}}), line({{30, 94}, {72, 94}})}},
      {{join(arc(48, 30, 27, 24, 190, 390), line({{68, 46}, {20, 92}, {80, 92}}))},
       {join(arc(46, 28, 25, 22, 200, 400),
             join(line({{62, 45}, {30, 80}}), join(arc(34, 82, 12, 10, 270, 0), line({{44, 84}, {84, 92}}))))},
       {line({{22, 12}, {74, 10}, {24, 90}, {80, 88}})}},
      {{join(arc(46, 28, 25, 22, 210, 450), arc(46, 72, 29, 23, 270, 500))},
       {join(line({{24, 8}, {74, 8}, {46, 42}}), arc(46, 68, 28, 27, 270, 500))},
       {join(arc(44, 27, 22, 20, 200, 420), arc(44, 70, 34, 26, 290, 520))}},
      {{line({{30, 8}, {20, 56}, {82, 56}}), line({{62, 26}, {62, 95}})},
       {line({{62, 95}, {62, 5}, {16, 66}, {84, 66}})},
       {join(arc(36, 30, 16, 34, 180, 60), line({{44, 60}, {74, 54}})), line({{72, 8}, {64, 95}})}},
      {{join(line({{76, 8}, {32, 8}, {28, 46}}), arc(48, 67, 29, 27, 230, 500))},
       {join(line({{34, 10}, {30, 42}, {52, 40}}), arc(46, 68, 30, 26, 280, 510)), line({{34, 10}, {80, 12}})},
       {join(arc(56, 26, 24, 20, 300, 130), arc(48, 69, 26, 26, 260, 500))}},
      {{join(line({{66, 5}, {40, 30}, {27, 62}}), arc(50, 70, 24, 24, 180, 540))},
       {join(arc(66, 50, 42, 45, 260, 170), arc(48, 72, 24, 22, 170, 520))},
       {join(line({{44, 5}, {26, 70}}), arc(48, 72, 22, 20, 180, 530))}},
      {{line({{20, 10}, {80, 10}, {40, 95}})},
       {line({{20, 12}, {78, 10}, {44, 95}}), line({{34, 52}, {74, 50}})},
       {line({{20, 24}, {22, 10}, {76, 12}}), arc(94, 80, 46, 72, 246, 170)}},
      {{arc(50, 28, 21, 21, 90, 450), arc(50, 72, 27, 23, 270, 630)},
       {join(arc(52, 27, 20, 20, 20, -200),
             join(line({{36, 36}, {64, 62}}), join(arc(48, 73, 24, 20, -20, 200), line({{26, 66}, {68, 36}}))))},
       {arc(46, 30, 18, 22, 60, 420), arc(52, 74, 20, 20, 240, 600)}},
      {{join(arc(48, 30, 24, 24, 0, 360), line({{72, 30}, {66, 95}}))},
       {join(arc(50, 30, 24, 22, -20, 340), join(line({{74, 30}, {72, 66}}), arc(50, 70, 22, 22, 0, 130)))},
       {join(arc(46, 32, 22, 25, 320, 20), line({{68, 12}, {70, 95}}))}},
  }};
  return table;
}

struct Canvas {
  std::array<int64_t, side * side> distance;  // squared distance to the nearest stroke, in pixel units
  Canvas() { distance.fill(std::numeric_limits<int64_t>::max()); }

  void segment(Point a, Point b, int64_t reach) {
    const int64_t dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
    const auto first = [&](int64_t u, int64_t v) { return std::max<int64_t>(0, (std::min(u, v) - reach) / pixel - 1); };
    const auto last = [&](int64_t u, int64_t v) {
      return std::min<int64_t>(side - 1, (std::max(u, v) + reach) / pixel + 1);
    };
    for (int64_t row = first(a.y, b.y); row <= last(a.y, b.y); ++row) {
      for (int64_t column = first(a.x, b.x); column <= last(a.x, b.x); ++column) {
        const int64_t px = column * pixel + pixel / 2 - a.x, py = row * pixel + pixel / 2 - a.y;
        const int64_t along = std::clamp<int64_t>(px * dx + py * dy, 0, length2);
        const int64_t t = length2 == 0 ? 0 : along * one / length2;
        const int64_t ex = px - dx * t / one, ey = py - dy * t / one;
        int64_t& nearest = distance[static_cast<size_t>(row * side + column)];
        nearest = std::min(nearest, ex * ex + ey * ey);
      }
    }
  }

  // Ink of a pen of that half width, falling off over one pixel: 0..256.
  int64_t ink(size_t at, int64_t half_width) const {
    const int64_t reach = half_width + pixel / 2;
    if (distance[at] >= reach * reach) return 0;
    return std::clamp<int64_t>(reach - root(distance[at]), 0, pixel);
  }
};

// Two sine waves per axis that bend the box.
struct Waves {
  struct Wave {
    int64_t along_x, along_y, phase, amplitude;
  };
  std::array<std::array<Wave, 2>, 2> axes;
  explicit Waves(Draw& draw) {
    for (auto& axis : axes) {
      for (auto& wave : axis) {
        wave = {draw.between(-110, 110), draw.between(-110, 110), draw.between(0, full_turn - 1),
                draw.between(0, hundredths(4))};
      }
    }
  }
  int64_t shift(int axis, Point p) const {
    int64_t sum = 0;
    for (const Wave& w : axes[static_cast<size_t>(axis)])
      sum += w.amplitude * sine(w.phase + (w.along_x * p.x + w.along_y * p.y) / 100) / 32768;
    return sum;
  }
};

// Box -> canvas: elastic waves, then a random affine map.
class Placement {
 public:
  explicit Placement(Draw& draw) : waves_(draw) {
    const int64_t scale = draw.between(17 * pixel, 22 * pixel);
    const int64_t aspect = draw.between(70, 100);
    const int64_t turn = draw.around_zero(full_turn / 20), slant = draw.around_zero(25);
    const int64_t c = cosine(turn), s = sine(turn);
    const int64_t wide = scale * aspect / 100;
    xx_ = wide * c / 32768;
    xy_ = -scale * s / 32768 + wide * slant / 100;
    yx_ = wide * s / 32768;
    yy_ = scale * c / 32768;
    centre_ = {14 * pixel + draw.around_zero(3 * pixel), 14 * pixel + draw.around_zero(3 * pixel)};
  }
  Point operator()(Point p) const {
    const int64_t x = p.x + waves_.shift(0, p) - one / 2, y = p.y + waves_.shift(1, p) - one / 2;
    return {centre_.x + (xx_ * x + xy_ * y) / one, centre_.y + (yx_ * x + yy_ * y) / one};
  }

 private:
  Waves waves_;
  int64_t xx_, xy_, yx_, yy_;
  Point centre_;
};

void draw_path(Canvas& canvas, const Path& path, int64_t reach) {
  for (size_t i = 1; i < path.size(); ++i) canvas.segment(path[i - 1], path[i], reach);
}

// A short stray mark or an occluding bar: a random segment.
Path random_segment(Draw& draw, int64_t length) {
  const Point a{draw.between(0, side * pixel), draw.between(0, side * pixel)};
  const int64_t turn = draw.between(0, full_turn - 1);
  return {a, {a.x + length * cosine(turn) / 32768, a.y + length * sine(turn) / 32768}};
}

void draw_digit(int label, Draw& draw, uint8_t* out) {
  const auto& styles = glyphs()[static_cast<size_t>(label)];
  const Glyph& glyph = styles[static_cast<size_t>(draw.between(0, static_cast<int64_t>(styles.size()) - 1))];
  const Placement place(draw);
  const int64_t pen = draw.between(pixel * 45 / 100, pixel * 140 / 100), strength = draw.between(150, 255);
  Canvas digit, marks, bars;
  for (const Path& path : glyph) {
    Path placed(path.size());
    std::transform(path.begin(), path.end(), placed.begin(), place);
    draw_path(digit, placed, pen + pixel);
  }
  const int64_t stray = draw.between(0, 2);
  for (int64_t i = 0; i < stray; ++i)
    draw_path(marks, random_segment(draw, draw.between(2 * pixel, 6 * pixel)), 2 * pixel);
  const bool occluded = draw.chance(25);
  if (occluded) draw_path(bars, random_segment(draw, 2 * side * pixel), 2 * pixel);
  const int64_t noise = draw.between(4, 44);
  for (size_t at = 0; at < side * side; ++at) {
    int64_t value = std::max(digit.ink(at, pen) * strength / pixel, marks.ink(at, pixel / 2) * 170 / pixel);
    if (occluded) value = value * (pixel - bars.ink(at, pixel)) / pixel;
    value += draw.around_zero(noise);
    out[at] = static_cast<uint8_t>(std::clamp<int64_t>(value, 0, 255));
  }
}

ImageSet draw_set(uint64_t seed, uint32_t split, int64_t images) {
  ImageSet set;
  set.rows = set.columns = side;
  set.classes = 10;
  set.pixels.resize(static_cast<size_t>(images) * side * side);
  set.labels.resize(static_cast<size_t>(images));
  for (int64_t i = 0; i < images; ++i) {
    Draw draw(seed, split, static_cast<uint64_t>(i));
    const int label = static_cast<int>(draw.between(0, 9));
    set.labels[static_cast<size_t>(i)] = static_cast<uint8_t>(label);
    draw_digit(label, draw, set.pixels.data() + static_cast<size_t>(i) * side * side);
  }
  return set;
}

}  // namespace

Split stroke_digits(uint64_t seed, int64_t train_images, int64_t test_images) {
  constexpr int64_t most = int64_t{1} << 24;
  for (const int64_t images : {train_images, test_images}) {
    if (images < 0 || images > most)
      throw ValueError(fmt::format("[stroke_digits] {} images; expected 0 to {}", images, most));
  }
  return {"stroke-digits", draw_set(seed, 0, train_images), draw_set(seed, 1, test_images)};
}

}  // namespace heddle::data
