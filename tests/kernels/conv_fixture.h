// Convolutions and their gradients on a device beside plain loops: what the tests of conv.hk and conv_weight_grad.hk
// share.
//
// Purpose: check() runs a case with the tunables of a schedule (none: those that are picked here) and compares each
// element. Invariants: inputs are quarters, so that sums are exact but for Winograd's. Thread safety: one test at a
// time.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/core/tiles/conv_schedules.h"
#include "heddle/core/tiles/conv_tiles.h"
#include "tests/kernels/kernel_test.h"

namespace heddle::test {

class ConvFixture : public KernelTest {
 protected:
  using Kind = ConvProblem::Kind;

  // A forward convolution; its gradients are derived from it.
  struct Case {
    const char* name;
    int64_t n, groups, c, o;  // channels in all
    Extent3 in, kernel, stride, dilation, before, after;
  };

  static inline const Case cases[] = {
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

  static ConvImages dense(int64_t c, const Extent3& size, const Layout& layout) {
    ConvImages images;
    images.offset = layout.offset;
    const int64_t pixels = size[0] * size[1] * size[2];
    const int64_t step = layout.channels_last ? c : layout.spread;
    images.space = {size[1] * size[2] * step, size[2] * step, step};
    images.c = layout.channels_last ? 1 : pixels * step;
    images.n = c * pixels * (layout.channels_last ? 1 : step);
    return images;
  }

  static size_t extent(const ConvImages& images, int64_t n) {
    return static_cast<size_t>(images.offset + n * images.n);
  }

  static int64_t at(const ConvImages& images, int64_t n, int64_t c, const Extent3& p) {
    return images.offset + n * images.n + c * images.c + p[0] * images.space[0] + p[1] * images.space[1] +
           p[2] * images.space[2];
  }

  static void for_each(const Extent3& size, const std::function<void(const Extent3&)>& f) {
    for (int64_t d = 0; d < size[0]; ++d) {
      for (int64_t h = 0; h < size[1]; ++h) {
        for (int64_t w = 0; w < size[2]; ++w) f({d, h, w});
      }
    }
  }

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
    // Channels of dst lie side by side in the weights, as where an input gradient is turned around.
    bool turned = false;
  };

  // Weights of one position as (groups, channels of dst, channels of src), with the channels of dst side by side.
  static KernelArray turned_weights(const ConvProblem& p, const KernelArray& weights, DType t) {
    const std::vector<double> values = weights.values();
    std::vector<double> out(values.size());
    for (int64_t g = 0; g < p.G; ++g) {
      for (int64_t o = 0; o < p.OG; ++o) {
        for (int64_t c = 0; c < p.CG; ++c)
          out[static_cast<size_t>((g * p.CG + c) * p.OG + o)] = values[static_cast<size_t>((g * p.OG + o) * p.CG + c)];
      }
    }
    return KernelArray::of(t, out);
  }
  static ConvWeights weights_of(const ConvProblem& p, const Options& o) {
    ConvWeights w = dense_weights(p);
    if (o.turned) std::tie(w.o, w.c) = std::pair(int64_t{1}, p.OG);
    return w;
  }

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
    p.w_c1 = kind == Kind::forward && p.kernel[0] == 1 && !o.turned;
    p.w_o1 = o.turned;
    p.flat = kind == Kind::weight_grad && meets_one_by_one(p) && is_plane(x, p.in) && is_plane(g, p.out);
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
    if (o.turned) r.arrays[second] = turned_weights(p, r.arrays[second], o.b);
    r.arrays["dst"] = KernelArray::of(o.out, std::vector<double>(sums.size(), 77));
    const Bindings constants =
        kind == Kind::weight_grad ? conv_weight_grad_constants(p, x, g) : conv_constants(p, x, weights_of(p, o));
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
    const int64_t schedule = options.tunables.at("SCHEDULE");
    if (kind == Kind::weight_grad && schedule == conv_schedules::dots) {
      EXPECT_EQ(added(got.arrays.at("dst").values(), o.parts), added(sums, o.parts)) << what;
    } else if (schedule != conv_schedules::winograd) {
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

}  // namespace heddle::test
