// conv.hk and conv_weight_grad.hk: every schedule against plain loops, at sizes that fit no tile, with strides,
// dilation, padding, groups, layouts and types.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "heddle/core/tiles/conv_tiles.h"
#include "tests/kernels/kernel_test.h"

namespace heddle::test {
namespace {

using Kind = ConvProblem::Kind;

// A forward convolution; its gradients are derived from it.
struct Case {
  const char* name;
  int64_t n, groups, c, o;  // channels in all
  Extent3 in, kernel, stride, dilation, before, after;
};

const Case cases[] = {
    {"plain", 2, 1, 5, 19, {1, 9, 13}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
    {"strided", 3, 1, 18, 33, {1, 8, 11}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 0, 2}},
    {"pointwise", 2, 1, 20, 17, {1, 7, 7}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {"dilated groups", 2, 3, 6, 15, {1, 10, 9}, {1, 3, 2}, {1, 1, 3}, {1, 2, 3}, {0, 2, 3}, {0, 3, 1}},
    {"depthwise", 2, 7, 7, 7, {1, 9, 21}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
    {"kernel larger than the image", 1, 1, 3, 9, {1, 2, 1}, {1, 5, 4}, {1, 1, 1}, {1, 1, 1}, {0, 3, 2}, {0, 2, 3}},
    {"three dimensions", 2, 1, 3, 6, {4, 5, 6}, {2, 3, 3}, {2, 1, 2}, {1, 2, 1}, {1, 2, 0}, {0, 1, 1}},
};

struct Layout {
  bool channels_last = false;
  int64_t offset = 0;
  int64_t spread = 1;  // distance of neighbours along the width (channels first)
};

ConvImages dense(int64_t c, const Extent3& size, const Layout& layout) {
  ConvImages images;
  images.offset = layout.offset;
  const int64_t pixels = size[0] * size[1] * size[2];
  const int64_t step = layout.channels_last ? c : layout.spread;
  images.space = {size[1] * size[2] * step, size[2] * step, step};
  images.c = layout.channels_last ? 1 : pixels * step;
  images.n = c * pixels * (layout.channels_last ? 1 : step);
  return images;
}

size_t extent(const ConvImages& images, int64_t n) { return static_cast<size_t>(images.offset + n * images.n); }

int64_t at(const ConvImages& images, int64_t n, int64_t c, const Extent3& p) {
  return images.offset + n * images.n + c * images.c + p[0] * images.space[0] + p[1] * images.space[1] +
         p[2] * images.space[2];
}

void for_each(const Extent3& size, const std::function<void(const Extent3&)>& f) {
  for (int64_t d = 0; d < size[0]; ++d) {
    for (int64_t h = 0; h < size[1]; ++h) {
      for (int64_t w = 0; w < size[2]; ++w) f({d, h, w});
    }
  }
}

class ConvTest : public KernelTest {
 protected:
  static ConvProblem problem(const Case& c, Kind kind) {
    ConvProblem p;
    p.kind = kind;
    p.N = c.n;
    p.G = c.groups;
    p.CG = c.c / c.groups;
    p.OG = c.o / c.groups;
    p.in = c.in;
    p.kernel = c.kernel;
    p.stride = c.stride;
    p.dilation = c.dilation;
    p.pad = c.before;
    for (size_t d = 0; d < 3; ++d)
      p.out[d] = (c.in[d] + c.before[d] + c.after[d] - c.dilation[d] * (c.kernel[d] - 1) - 1) / c.stride[d] + 1;
    if (kind == Kind::input_grad) {
      std::swap(p.in, p.out);
      std::swap(p.CG, p.OG);
    }
    return p;
  }

  // Adds each product of the forward convolution to the element of the result it belongs to.
  static std::vector<double> expected(const ConvProblem& p, const ConvImages& a, const ConvImages& b,
                                      const KernelArray& first, const KernelArray& second) {
    const bool swapped = p.kind == Kind::input_grad;
    const Extent3 &x_size = swapped ? p.out : p.in, &y_size = swapped ? p.in : p.out;
    const int64_t c_n = swapped ? p.OG : p.CG, o_n = swapped ? p.CG : p.OG,
                  taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
    const ConvImages result = dense(p.G * p.OG, p.out, {p.last});
    const size_t results =
        p.kind == Kind::weight_grad ? static_cast<size_t>(p.G * o_n * c_n * taps) : extent(result, p.N);
    std::vector<double> out(static_cast<size_t>(p.parts) * results);
    const int64_t lines = (p.N * y_size[0] * y_size[1] + p.parts - 1) / p.parts,
                  channels = (p.CG + p.parts - 1) / p.parts;
    for (int64_t n = 0; n < p.N; ++n) {
      for (int64_t o = 0; o < p.G * o_n; ++o) {
        for_each(y_size, [&](const Extent3& q) {
          for_each(p.kernel, [&](const Extent3& k) {
            Extent3 at_x;
            for (size_t d = 0; d < 3; ++d) {
              at_x[d] = q[d] * p.stride[d] + k[d] * p.dilation[d] - p.pad[d];
              if (at_x[d] < 0 || at_x[d] >= x_size[d]) return;
            }
            for (int64_t c = 0; c < c_n; ++c) {
              const int64_t channel = o / o_n * c_n + c, tap = (k[0] * p.kernel[1] + k[1]) * p.kernel[2] + k[2],
                            w = (o * c_n + c) * taps + tap;
              if (p.kind == Kind::forward) {
                out[static_cast<size_t>(c / channels) * results + static_cast<size_t>(at(result, n, o, q))] +=
                    first[static_cast<size_t>(at(a, n, channel, at_x))] * second[static_cast<size_t>(w)];
              } else if (p.kind == Kind::input_grad) {
                const auto part = static_cast<size_t>(o % o_n / channels);
                out[part * results + static_cast<size_t>(at(result, n, channel, at_x))] +=
                    first[static_cast<size_t>(at(a, n, o, q))] * second[static_cast<size_t>(w)];
              } else {
                const int64_t part = ((n * y_size[0] + q[0]) * y_size[1] + q[1]) / lines;
                out[static_cast<size_t>(part) * results + static_cast<size_t>(w)] +=
                    first[static_cast<size_t>(at(a, n, channel, at_x))] * second[static_cast<size_t>(at(b, n, o, q))];
              }
            }
          });
        });
      }
    }
    return out;
  }

  struct Options {
    Layout layout;
    DType a = DType::f32, b = DType::f32, out = DType::f32, acc = DType::f32;
    int64_t parts = 1;
    // One element in the last column of src, or of grad: only taps that meet it may see it. Copies of src have zeros as
    // borders, and zero times infinity is NaN; what is read in place has none.
    bool infinite_src = false, infinite_grad = false;
  };

  // The last pixel of the last row but one, of a plane amid the others.
  static void put_infinity(KernelArray& array, const ConvImages& images, int64_t n, int64_t c, const Extent3& size) {
    std::vector<double> values = array.values();
    const Extent3 place{size[0] - 1, std::max<int64_t>(size[1] - 2, 0), size[2] - 1};
    values[static_cast<size_t>(at(images, n / 2, c / 2, place))] = std::numeric_limits<double>::infinity();
    array = KernelArray::of(DType::f32, values);
  }
  static std::vector<double> without_nan(std::vector<double> values) {
    for (double& v : values) v = std::isnan(v) ? 1e30 : v;
    return values;
  }

  void check(const Case& c, Kind kind, const Bindings& tunables, const Options& o) {
    ConvProblem p = problem(c, kind);
    p.last = o.layout.channels_last;
    p.parts = o.parts;
    const ConvImages x = dense(p.G * p.CG, p.in, o.layout), g = dense(p.G * p.OG, p.out, o.layout);
    p.x_w1 = x.space[2] == 1;
    p.g_w1 = g.space[2] == 1;
    p.w_k1 = true;
    p.w_c1 = kind == Kind::forward && p.kernel[0] == 1;
    p.sized = true;
    p.w_row = p.w_c1 ? dense_weights(p).o : 0;
    p.x = o.a;
    p.w = o.b;
    KernelRun r;
    r.arrays["src"] = KernelArray::of(o.a, quarters(extent(x, p.N), 1));
    const char* second = kind == Kind::weight_grad ? "grad" : "wgt";
    const int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
    r.arrays[second] = KernelArray::of(
        o.b, quarters(kind == Kind::weight_grad ? extent(g, p.N) : static_cast<size_t>(p.G * p.OG * p.CG * taps), 2));
    if (o.infinite_src) put_infinity(r.arrays["src"], x, p.N, p.G * p.CG, p.in);
    if (o.infinite_grad) put_infinity(r.arrays["grad"], g, p.N, p.G * p.OG, p.out);
    const std::vector<double> sums = expected(p, x, g, r.arrays["src"], r.arrays[second]);
    r.arrays["dst"] = KernelArray::of(o.out, std::vector<double>(sums.size(), 77));
    const Bindings constants =
        kind == Kind::weight_grad ? conv_weight_grad_constants(p, x, g) : conv_constants(p, x, dense_weights(p));
    for (const auto& [name, value] : constants) r.constants[name] = static_cast<double>(value);
    KernelFile::Options options;
    options.types = {{"TX", o.a}, {"TW", o.b}, {"TY", o.out}, {"ACC", o.acc}};
    options.tunables = kind == Kind::weight_grad ? pick_conv_weight_grad(caps(), p) : pick_conv(caps(), p);
    if (!tunables.empty()) {
      // Only the facts of what was picked.
      const KernelFile& f = file(kind);
      std::erase_if(options.tunables, [&](const auto& entry) {
        return std::any_of(f.tunables.begin(), f.tunables.end(),
                           [&](const KernelTunable& t) { return t.name == entry.first && !t.fact; });
      });
      for (const auto& [name, value] : tunables) options.tunables[name] = value;
      if (options.tunables.at("SCHEDULE") == 6) add_pointwise_facts(options.tunables, p);
    }
    const KernelOutcome got = run(file(kind), options, r);
    const std::string what = std::string(c.name) + " kind " + std::to_string(static_cast<int>(kind)) + " " +
                             conv_algorithm(options.tunables);
    if (what.find("winograd") == std::string::npos) {
      EXPECT_EQ(without_nan(got.arrays.at("dst").values()), without_nan(KernelArray::of(o.out, sums).values())) << what;
    } else {
      expect_close(added(got.arrays.at("dst").values(), o.parts), added(sums, o.parts), what);
    }
  }
  // The sum of `parts` runs: which pixels are in which is a schedule's affair.
  static std::vector<double> added(const std::vector<double>& runs, int64_t parts) {
    std::vector<double> total(runs.size() / static_cast<size_t>(parts));
    for (size_t i = 0; i < runs.size(); ++i) total[i % total.size()] += runs[i];
    return total;
  }

  // Winograd's sums are not exact: errors are relative to the largest result.
  static void expect_close(const std::vector<double>& got, const std::vector<double>& sums, const std::string& what) {
    double largest = 1;
    for (const double s : sums) largest = std::max(largest, std::abs(s));
    ASSERT_EQ(got.size(), sums.size());
    for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(got[i], sums[i], 2e-6 * largest) << what << " at " << i;
  }

  void check(const Case& c, Kind kind, const Bindings& tunables) { check(c, kind, tunables, Options{}); }

  static const KernelFile& file(Kind kind) {
    return KernelFile::builtin(kind == Kind::weight_grad ? "conv_weight_grad" : "conv");
  }
  int64_t width() const { return on_opencl() ? 16 : 4; }

  static Bindings lanes() { return {{"SCHEDULE", 0}, {"LANES", 32}}; }
  static Bindings tiles() { return {{"SCHEDULE", 1}, {"TM", 16}, {"TN", 32}, {"TK", 8}, {"RM", 2}, {"RN", 4}}; }
  Bindings packed(Kind kind) const {
    if (kind == Kind::weight_grad)
      return {{"SCHEDULE", 2}, {"VW", width()}, {"MR", 3}, {"NV", 2}, {"NB", 2}, {"CB", on_opencl() ? 16 : 4},
              {"QH", 2},       {"QW", 4}};
    return {{"SCHEDULE", 2}, {"VW", width()}, {"MR", 3}, {"MI", 2}, {"NV", 1},
            {"NB", 2},       {"QT", 1},       {"QH", 2}, {"NI", 2}, {"CB", 4}};
  }
  static Bindings registers() { return {{"SCHEDULE", 3}, {"LANES", 8}, {"RM", 4}, {"RN", 2}}; }
  Bindings rows(Kind kind) const {
    if (kind == Kind::weight_grad) {
      Bindings t = {{"SCHEDULE", 4}, {"VW", width()}, {"MR", 2}, {"KB", 2}, {"NB", 2}, {"QW", 16}, {"QH", 4}};
      if (on_vulkan_gpu()) t["CB"] = 4;  // NVIDIA's Vulkan compiler refuses so much private memory as CPUs choose
      return t;
    }
    return {{"SCHEDULE", 4}, {"VW", width()}, {"QT", 1}, {"QH", 4}};
  }
  static Bindings planes(int64_t vw, int64_t qw, int64_t qh, int64_t nb = 1) {
    return {{"SCHEDULE", 9}, {"VW", vw}, {"QW", qw}, {"QH", qh}, {"NB", nb}};
  }
  Bindings winograd(Kind kind) const {
    if (kind == Kind::weight_grad) {
      return {{"SCHEDULE", 5}, {"VW", width()}, {"MR", 2}, {"NV", 1}, {"NB", width() / 2}, {"CB", width()}, {"NC", 2},
              {"NO", 2},       {"QT", 2},       {"QH", 1}, {"NI", 2}};
    }
    return {{"SCHEDULE", 5}, {"VW", width()}, {"MR", 3}, {"NV", 1}, {"NB", 1}, {"CB", width()},
            {"KB", 2},       {"NO", 2},       {"QT", 2}, {"QH", 1}, {"NI", 2}};
  }
  static constexpr Kind kinds[] = {Kind::forward, Kind::input_grad, Kind::weight_grad};
};

TEST_P(ConvTest, OneOutputPerLane) {
  for (const Kind kind : kinds) {
    for (const Case& c : cases) check(c, kind, lanes());
  }
}

TEST_P(ConvTest, SharedTiles) {
  for (const Kind kind : kinds) {
    for (const Case& c : {cases[1], cases[3], cases[6]}) check(c, kind, tiles());
  }
}

// Two tiles, four neighbours of a lane, whole kernels in a tile and cut ones, more channels than a tile holds; strided
// gradients go by phases.
TEST_P(ConvTest, SharedTilesOfWholeKernels) {
  const Case shapes[] = {
      {"plain", 2, 1, 21, 35, {1, 9, 13}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"strided", 3, 2, 22, 34, {1, 8, 11}, {1, 3, 3}, {1, 2, 3}, {1, 1, 1}, {0, 1, 1}, {0, 0, 2}},
      {"pointwise", 2, 1, 37, 17, {1, 7, 9}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
      {"large kernel", 1, 1, 3, 9, {1, 8, 12}, {1, 7, 6}, {1, 2, 1}, {1, 1, 2}, {0, 3, 2}, {0, 2, 3}},
      cases[5],
  };
  const Bindings wide = {{"SCHEDULE", 1}, {"TM", 32}, {"TN", 64}, {"TK", 18},
                         {"RM", 8},       {"RN", 4},  {"RUN", 4}, {"PREFETCH", 1}};
  // lavapipe takes seconds to compile one of those, and never chooses them.
  if (!on_opencl()) {
    Bindings small = {{"SCHEDULE", 1}, {"TM", 16}, {"TN", 32}, {"TK", 18},
                      {"RM", 4},       {"RN", 2},  {"RUN", 2}, {"PREFETCH", 1}};
    for (const Kind kind : {Kind::forward, Kind::input_grad}) check(shapes[1], kind, small);
    small["TK"] = 16;
    check(shapes[1], Kind::weight_grad, small);
    return;
  }
  Bindings deep = wide;
  deep["TK"] = 36;
  deep["RM"] = 4;
  deep["RUN"] = 2;
  for (const Kind kind : {Kind::forward, Kind::input_grad}) {
    for (const Case& c : shapes) check(c, kind, c.kernel[2] == 3 ? wide : deep);
    check(shapes[0], kind, deep);
    check(shapes[1], kind, deep);
  }
  Bindings weights = wide;
  weights["TK"] = 16;
  for (const Case& c : shapes) check(c, Kind::weight_grad, weights);
  weights["TK"] = 8;
  weights["RM"] = 2;
  weights["RUN"] = 2;
  check(shapes[1], Kind::weight_grad, weights);
}

TEST_P(ConvTest, Packed) {
  for (const Kind kind : kinds) {
    for (const Case& c : {cases[1], cases[2], cases[3], cases[5], cases[6]}) check(c, kind, packed(kind));
  }
  // Rows in registers whose first pixel, last pixel, or both meet zeros, and a pixel that does with every position.
  for (const int64_t width : {2, 3, 7, 8}) {
    const Case narrow{"short rows", 3, 1, 5, 17, {1, 5, width}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
        padded{"padding", 2, 1, 3, 17, {1, 4, width}, {1, 2, 3}, {1, 1, 2}, {1, 1, 1}, {0, 0, 4}, {0, 1, 5}};
    for (const int64_t mr : {1, 2, 4, 7}) {
      Bindings t = packed(Kind::forward);
      t["MR"] = mr;
      check(narrow, Kind::forward, t);
      check(padded, Kind::forward, t);
      if (!on_opencl()) continue;
      t["CB"] = 8;  // sums along channels instead of the kernel's rows
      check(narrow, Kind::forward, t);
      check(padded, Kind::forward, t);
    }
  }
  // Whole vectors of pixels that a stride leaves out, and those at the end of the last image.
  const Case wide{"wide", 3, 1, 35, 9, {1, 6, 43}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 1, 3}, {0, 0, 2}};
  Bindings strip = packed(Kind::weight_grad);
  strip["QW"] = 32;
  check(wide, Kind::weight_grad, strip);
}

TEST_P(ConvTest, Registers) {
  for (const Kind kind : kinds) {
    for (const Case& c : {cases[0], cases[1], cases[3], cases[6]}) check(c, kind, registers());
  }
}

TEST_P(ConvTest, Rows) {
  for (const Kind kind : kinds) {
    for (const Case& c : {cases[1], cases[3], cases[4], cases[6]}) {
      // lavapipe takes seconds to compile one of those, and never chooses them.
      if (kind == Kind::weight_grad && !on_opencl() && c.kernel[2] != 2) continue;
      check(c, kind, rows(kind));
    }
  }
  // Two blocks along the width, of which one phase meets no position of the kernel, and of which the last is no vector.
  for (const int64_t dilation : {1, 2}) {
    const Case wide{"wide", 2, 5, 5, 5, {1, 7, 45}, {1, 3, 5}, {1, 2, 2}, {1, 1, dilation}, {0, 1, 3}, {0, 1, 2}};
    check(wide, Kind::input_grad, rows(Kind::input_grad));
    if (on_opencl()) check(wide, Kind::weight_grad, rows(Kind::weight_grad));
  }
}

// Few channels of src on a CPU: as they are chosen, in several passes over a kernel with a stride and over more columns
// than are copied at a time, of operands that lie otherwise and in parts.
TEST_P(ConvTest, WeightGradientsOfFewChannels) {
  if (!on_opencl()) return;  // no other device chooses them; Rows runs them
  const Case gray{"gray", 3, 1, 1, 15, {1, 12, 28}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      colours{"colours", 2, 1, 3, 9, {1, 13, 41}, {1, 5, 5}, {1, 2, 2}, {1, 1, 1}, {0, 2, 2}, {0, 1, 2}},
      one{"one result", 1, 1, 5, 1, {1, 5, 40}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}};
  check(gray, Kind::weight_grad, {});
  check(one, Kind::weight_grad, {});
  Options o;
  o.parts = 5;
  check(colours, Kind::weight_grad, rows(Kind::weight_grad), o);
  o = Options{};
  o.layout = Layout{true, 3, 1};
  o.a = DType::f16;
  o.b = DType::bf16;
  check(gray, Kind::weight_grad, {}, o);
}

TEST_P(ConvTest, Winograd) {
  const Case shapes[] = {
      {"same", 3, 1, 5, 19, {1, 9, 13}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"no padding", 1, 1, 35, 7, {1, 11, 6}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
      {"wide padding", 2, 1, 4, 40, {1, 3, 1}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 3, 2}, {0, 5, 1}},
      {"groups", 2, 2, 6, 38, {1, 5, 17}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 2}, {0, 2, 0}},
      {"depth", 2, 1, 3, 5, {3, 4, 4}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
  };
  // lavapipe takes seconds to compile one of these, and never chooses them.
  if (!on_opencl()) {
    check(shapes[0], Kind::forward, winograd(Kind::forward));
    check(shapes[0], Kind::weight_grad, winograd(Kind::weight_grad));
    return;
  }
  for (const Kind kind : kinds) {
    for (const Case& c : shapes) check(c, kind, winograd(kind));
    Options o;
    o.layout = Layout{true, 3, 1};
    check(shapes[0], kind, winograd(kind), o);
    o.layout = Layout{false, 5, 2};
    check(shapes[0], kind, winograd(kind), o);
    o = Options{};
    o.a = DType::f16;
    o.b = DType::bf16;
    check(shapes[3], kind, winograd(kind), o);
  }
  for (const int64_t parts : {2, 3, 50}) {
    Options o;
    o.parts = parts;
    check(shapes[0], Kind::weight_grad, winograd(Kind::weight_grad), o);
  }
}

// Rows of weights a known distance apart and others, a last block of fewer channels, pixels that are left over, sums
// that wait for further channels.
TEST_P(ConvTest, Pointwise) {
  const Bindings one = {{"SCHEDULE", 6}, {"VW", width()}, {"MR", 3}, {"NV", 2},  {"QT", 1},
                        {"QH", 2},       {"NI", 2},       {"NO", 1}, {"CB", 512}};
  const Case shapes[] = {
      {"plain", 3, 1, 20, 37, {1, 5, 19}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
      {"strided", 3, 1, 20, 37, {1, 9, 7}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
      {"padded groups", 1, 3, 6, 15, {1, 4, 21}, {1, 1, 1}, {1, 3, 2}, {1, 1, 1}, {0, 1, 2}, {0, 2, 3}},
      {"three dimensions", 2, 1, 3, 6, {4, 5, 6}, {1, 1, 1}, {2, 1, 3}, {1, 1, 1}, {1, 0, 1}, {0, 1, 0}},
      {"tail", 1, 2, 64, 40, {1, 1, 67}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
  };
  for (const Kind kind : {Kind::forward, Kind::input_grad}) {
    check(shapes[1], kind, one);
    // Never chosen on lavapipe, which compiles slowly and ends long loops.
    if (!on_opencl()) continue;
    for (const Case& c : {shapes[0], shapes[2], shapes[3], shapes[4]}) check(c, kind, one);
    // Whole rows of more than a vector, whose results and zeros lie without gaps; images that share a panel.
    Bindings rows = one;
    rows["QT"] = 3;
    rows["QH"] = 4;
    for (const Extent3& stride :
         {Extent3{1, 1, 1}, Extent3{1, 2, 2}, Extent3{1, 3, 2}, Extent3{1, 1, 2}, Extent3{1, 2, 1}, Extent3{1, 2, 3}}) {
      check({"wide", 3, 1, 19, 21, {1, 8, 45}, {1, 1, 1}, stride, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}, kind, rows);
      check({"narrow", 5, 2, 8, 36, {1, 7, 11}, {1, 1, 1}, stride, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}, kind, rows);
    }
    Options o;
    o.layout = Layout{true, 3, 1};
    o.a = DType::f16;
    o.b = DType::bf16;
    check(shapes[1], kind, one, o);
  }
}

TEST_P(ConvTest, PointwiseOfManyChannels) {
  if (!on_opencl()) return;  // no other device chooses it
  for (const int64_t channels : {520, 523}) {
    const Case deep{"deep", 1, 1, channels, 20, {1, 5, 7}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}};
    for (const int64_t nv : {1, 2, 4}) {
      check(deep, Kind::forward,
            {{"SCHEDULE", 6},
             {"VW", width()},
             {"MR", 6},
             {"NV", nv},
             {"QT", 1},
             {"QH", 4},
             {"NI", 1},
             {"NO", 2},
             {"CB", 256}});
    }
    check(deep, Kind::forward, {});
  }
}

// Kernels of several positions: borders, strides by phases, dilation, groups, channels in several runs, rows shorter
// and longer than a vector, one pixel left over.
TEST_P(ConvTest, PanelsOfPixels) {
  if (!on_opencl()) return;  // no other device chooses it
  const Case shapes[] = {
      {"rows", 2, 2, 12, 40, {1, 9, 21}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"images", 5, 1, 16, 18, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"strided", 3, 1, 10, 20, {1, 8, 11}, {1, 3, 2}, {1, 2, 3}, {1, 2, 1}, {0, 1, 2}, {0, 0, 1}},
      {"dilated", 2, 1, 6, 17, {1, 10, 9}, {1, 3, 4}, {1, 1, 2}, {1, 2, 3}, {0, 5, 4}, {0, 3, 9}},
      {"kernel larger than the image", 1, 1, 3, 19, {1, 2, 1}, {1, 5, 4}, {1, 1, 1}, {1, 1, 1}, {0, 3, 2}, {0, 2, 3}},
  };
  for (const Case& c : shapes) {
    for (const int64_t channels : {4, 64}) {
      check(c, Kind::forward,
            {{"SCHEDULE", 6},
             {"VW", width()},
             {"MR", 5},
             {"NV", 3},
             {"QT", 1},
             {"QH", 8},
             {"NI", 4},
             {"NO", 1},
             {"CB", channels}});
    }
  }
  Options o;
  o.layout = Layout{true, 3, 1};
  o.a = DType::f16;
  o.b = DType::bf16;
  check(shapes[0], Kind::forward,
        {{"SCHEDULE", 6}, {"VW", width()}, {"MR", 6}, {"NV", 1}, {"QT", 2}, {"QH", 4}, {"NI", 1}, {"NO", 2}, {"CB", 8}},
        o);
  const Case few{"few pixels", 1, 1, 48, 130, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}};
  check(few, Kind::forward, {});
}

// In chunks of channels, channels that fill no block, pixels that fill no vector, borders, groups, no image whole.
TEST_P(ConvTest, FewPixels) {
  const Bindings few = {{"SCHEDULE", 7}, {"VW", width()}, {"MR", 3}, {"NV", 2}, {"NO", 2}, {"CB", 8}};
  const Case shapes[] = {
      {"signal", 1, 1, 21, 37, {1, 1, 7}, {1, 1, 3}, {1, 1, 2}, {1, 1, 1}, {0, 0, 1}, {0, 0, 1}},
      {"images", 2, 1, 19, 5, {1, 3, 2}, {1, 3, 3}, {1, 2, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"dilated groups", 2, 3, 33, 15, {1, 4, 5}, {1, 3, 2}, {1, 1, 3}, {1, 2, 3}, {0, 2, 3}, {0, 1, 1}},
      {"one pixel", 1, 1, 40, 11, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
      {"depth", 1, 1, 3, 6, {3, 2, 2}, {1, 2, 2}, {2, 1, 1}, {1, 1, 1}, {1, 0, 1}, {1, 1, 0}},
  };
  check(shapes[0], Kind::forward, few);
  if (!on_opencl()) return;  // never chosen elsewhere
  for (const Case& c : shapes) check(c, Kind::forward, few);
  for (const Case& c : {shapes[0], shapes[3]}) check(c, Kind::forward, {});
  Options o;
  o.layout = Layout{true, 3, 1};
  o.a = DType::f16;
  o.b = DType::bf16;
  check(shapes[1], Kind::forward, few, o);
}

// Blocks of rows and columns that nothing fills, phases of a stride, borders wider than a vector is long, channels that
// are summed, operands that lie otherwise.
TEST_P(ConvTest, Strips) {
  const Case shapes[] = {
      {"depthwise", 2, 5, 5, 5, {1, 9, 37}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"stride 2", 2, 5, 5, 5, {1, 11, 37}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"even stride", 1, 3, 3, 3, {1, 14, 38}, {1, 5, 2}, {1, 1, 2}, {1, 1, 1}, {0, 0, 0}, {0, 2, 3}},
      {"dilated", 1, 2, 4, 4, {2, 13, 21}, {1, 3, 5}, {1, 2, 2}, {1, 2, 3}, {0, 2, 6}, {0, 2, 5}},
      {"stride 3", 1, 2, 6, 2, {1, 9, 50}, {1, 2, 3}, {1, 3, 3}, {1, 1, 1}, {0, 0, 2}, {0, 1, 2}},
      {"one position", 1, 3, 3, 3, {1, 9, 35}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
      {"far borders", 1, 2, 2, 2, {1, 3, 4}, {1, 3, 3}, {1, 1, 2}, {1, 1, 1}, {0, 4, 21}, {0, 5, 19}},
      {"signal", 3, 4, 4, 4, {1, 1, 33}, {1, 1, 7}, {1, 1, 1}, {1, 1, 1}, {0, 0, 3}, {0, 0, 3}},
  };
  const auto strips = [&](int64_t qt, int64_t qh, int64_t no) {
    return Bindings{{"SCHEDULE", 8}, {"VW", width()}, {"QT", qt}, {"QH", qh}, {"NO", no}};
  };
  check(shapes[1], Kind::forward, strips(1, 2, 2));
  if (!on_opencl()) return;  // never chosen elsewhere
  for (const Case& c : shapes) {
    check(c, Kind::forward, strips(1, 4, 2));
    if (c.stride[2] < 3) check(c, Kind::forward, {});
  }
  check(shapes[0], Kind::forward, strips(3, 7, 1));
  Options o;
  o.layout = Layout{true, 3, 1};
  o.a = DType::f16;
  o.b = DType::bf16;
  for (const Case& c : {shapes[0], shapes[1], shapes[3]}) check(c, Kind::forward, strips(2, 14, 4), o);
}

// Rows of grad and of src that run on: phases of strides in both directions, borders wider than a vector is long,
// blocks of rows and columns that nothing fills, parts that end within an image, channels that are not alone in their
// group.
TEST_P(ConvTest, PlanesOfOneChannel) {
  const Case shapes[] = {
      {"depthwise", 3, 5, 5, 5, {1, 9, 37}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"stride 2", 2, 5, 5, 5, {1, 11, 37}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"even", 1, 3, 3, 3, {1, 14, 38}, {1, 4, 2}, {1, 1, 2}, {1, 1, 1}, {0, 0, 0}, {0, 2, 3}},
      {"dilated", 1, 2, 4, 4, {2, 13, 21}, {1, 3, 5}, {1, 2, 2}, {1, 2, 3}, {0, 2, 6}, {0, 2, 5}},
      {"stride 3", 1, 2, 6, 2, {3, 9, 50}, {2, 2, 3}, {1, 3, 3}, {1, 1, 1}, {0, 0, 2}, {0, 1, 2}},
      {"one position", 1, 3, 3, 3, {1, 9, 35}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
      {"far borders", 1, 2, 2, 2, {1, 3, 4}, {1, 3, 3}, {1, 1, 2}, {1, 1, 1}, {0, 4, 21}, {0, 5, 19}},
      {"signal", 3, 4, 4, 4, {1, 1, 33}, {1, 1, 7}, {1, 1, 1}, {1, 1, 1}, {0, 0, 3}, {0, 0, 3}},
  };
  check(shapes[1], Kind::weight_grad, planes(width(), 16, 4));
  if (!on_opencl()) return;  // never chosen elsewhere
  for (const Case& c : shapes) {
    check(c, Kind::weight_grad, planes(16, 14, 4));
    if (c.stride[2] < 3) check(c, Kind::weight_grad, {});
  }
  check(shapes[0], Kind::weight_grad, planes(16, 64, 7));
  Options o;
  o.layout = Layout{true, 3, 1};
  o.a = DType::f16;
  o.b = DType::bf16;
  for (const Case& c : {shapes[0], shapes[1], shapes[3]}) check(c, Kind::weight_grad, planes(16, 128, 14), o);
}

// Planes that are read where they lie: rows of fewer and more elements than a vector, kernels wider and narrower than
// one, borders of unlike sides, images of fewer rows than the kernel, several channels a group, parts that end within
// an image; with a stride of 2 as well.
TEST_P(ConvTest, PlanesInPlace) {
  const Case shapes[] = {
      {"small", 3, 5, 5, 5, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"medium", 2, 6, 6, 6, {1, 14, 14}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}, {0, 2, 2}},
      {"odd", 2, 5, 5, 5, {1, 9, 37}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 2, 2}},
      {"far", 2, 4, 4, 4, {1, 6, 45}, {1, 3, 3}, {1, 1, 1}, {1, 2, 11}, {0, 2, 11}, {0, 2, 11}},
      {"low", 3, 4, 4, 4, {1, 2, 19}, {1, 5, 3}, {1, 1, 1}, {1, 1, 1}, {0, 2, 1}, {0, 2, 1}},
      {"shorter", 3, 4, 4, 4, {1, 8, 21}, {1, 4, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"small hops", 3, 5, 5, 5, {1, 14, 14}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
      {"hops", 3, 4, 4, 4, {1, 11, 59}, {1, 5, 5}, {1, 1, 2}, {1, 1, 1}, {0, 2, 2}, {0, 2, 2}},
      {"even hops", 2, 3, 3, 3, {1, 9, 38}, {1, 2, 4}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 1, 3}},
      {"wide hops", 2, 3, 3, 3, {1, 7, 64}, {1, 3, 3}, {1, 3, 2}, {1, 1, 3}, {0, 1, 3}, {0, 1, 3}},
  };
  Options o;
  o.parts = 4;
  check(shapes[0], Kind::weight_grad, planes(4, 7, 4, 2), o);
  if (!on_opencl()) return;  // never chosen elsewhere
  o.infinite_src = true;
  // Rows that are longer than QW are copied.
  for (const Case& c : {shapes[0], shapes[3], shapes[7]}) check(c, Kind::weight_grad, planes(16, 4, 4), o);
  o.infinite_grad = true;
  for (const Case& c : shapes) check(c, Kind::weight_grad, planes(c.in[2] < 16 ? 8 : 16, 64, 4, 4), o);
  check(shapes[0], Kind::weight_grad, planes(16, 64, 4, 2), o);
}

// Sums of few channels by rows leave out what is behind a row, whatever it is.
TEST_P(ConvTest, InfinityBesideRows) {
  Options o;
  o.infinite_src = true;
  for (const Case& c : {cases[0], cases[1], cases[3], cases[4]})
    check(c, Kind::weight_grad, rows(Kind::weight_grad), o);
}

TEST_P(ConvTest, PickedSchedules) {
  for (const Kind kind : kinds) {
    for (const Case& c : {cases[0], cases[1], cases[4]}) check(c, kind, {});
  }
  check({"first of pictures", 2, 1, 3, 32, {1, 23, 37}, {1, 7, 7}, {1, 2, 2}, {1, 1, 1}, {0, 3, 3}, {0, 3, 3}},
        Kind::forward, {});
  check({"first of one channel", 3, 1, 1, 32, {1, 28, 28}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}, {0, 2, 2}},
        Kind::forward, {});
}

TEST_P(ConvTest, ChannelsLastAndStridedImages) {
  for (const Kind kind : kinds) {
    Options o;
    o.layout = Layout{true, 3, 1};
    for (const Bindings& t : {lanes(), tiles(), packed(kind), registers(), rows(kind)}) check(cases[1], kind, t, o);
    o.layout = Layout{false, 5, 2};
    check(cases[1], kind, packed(kind), o);
  }
}

TEST_P(ConvTest, PartialSums) {
  Options o;
  o.parts = 5;
  for (const Bindings& t : {lanes(), tiles(), packed(Kind::weight_grad), registers(), rows(Kind::weight_grad)})
    check(cases[1], Kind::weight_grad, t, o);
  o.parts = 7;
  check(cases[6], Kind::weight_grad, packed(Kind::weight_grad), o);
  // Of channels: the last part is shorter, or empty.
  for (const Kind kind : {Kind::forward, Kind::input_grad}) {
    check(cases[3], kind, tiles(), o);
    o.layout = Layout{true, 3, 1};
    check(cases[1], kind, tiles(), o);
    o.layout = Layout{};
  }
}

TEST_P(ConvTest, HalfAndDoubleTypes) {
  for (const Kind kind : kinds) {
    Options o;
    o.a = DType::f16;
    o.b = DType::bf16;
    o.out = DType::f16;
    for (const Bindings& t : {packed(kind), registers()}) check(cases[0], kind, t, o);
    if (!caps().f64) continue;
    o.a = o.b = o.out = o.acc = DType::f64;
    check(cases[0], kind, lanes(), o);
  }
}

TEST_P(ConvTest, ManyChannelsInSeveralPasses) {
  const Case wide{"wide", 2, 1, 70, 40, {1, 5, 15}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}};
  for (const Kind kind : kinds) {
    check(wide, kind, packed(kind));
    check(wide, kind, {});
  }
}

TEST_P(ConvTest, SameBitsInEveryRun) {
  const ConvProblem p = problem(cases[1], Kind::weight_grad);
  EXPECT_EQ(pick_conv_weight_grad(caps(), p), pick_conv_weight_grad(caps(), p));
  EXPECT_EQ(pick_conv_parts(caps(), p), pick_conv_parts(caps(), p));
}

HEDDLE_ON_DEVICES(ConvTest);

}  // namespace
}  // namespace heddle::test
