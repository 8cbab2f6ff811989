// attention.hk and attention_backward.hk: every schedule against plain loops in double precision, at sizes that fit no
// tile, with strides, offsets, shared key heads and all that hides, biases or drops a key.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "heddle/core/graph/philox.h"
#include "heddle/core/tiles/attention_tiles.h"
#include "tests/kernels/kernel_test.h"

namespace heddle::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// (B, H, rows, elements) with strides of its own: batches are the innermost but for the elements.
struct Block {
  int64_t offset = 3, sb = 0, sh = 0, sr = 0;
  size_t size = 0;
  static Block make(int64_t batch, int64_t heads, int64_t rows, int64_t elements) {
    Block x;
    x.sb = elements + 1;
    x.sh = x.sb * batch;
    x.sr = x.sh * heads;
    x.size = static_cast<size_t>(x.offset + x.sr * rows);
    return x;
  }
  size_t at(int64_t b, int64_t h, int64_t r, int64_t e) const {
    return static_cast<size_t>(offset + b * sb + h * sh + r * sr + e);
  }
};

struct Features {
  bool causal = false, bias = false, mask = false, lengths = false, dropout = false;
};
const Features no_features{}, causal{true}, all_features{true, true, true, true, true};

struct Sizes {
  int64_t batch = 2, heads = 4, group = 2, queries = 37, keys = 45, size = 19, value_size = 23;
  int64_t key_heads() const { return heads / group; }
  int64_t rows() const { return batch * heads * queries; }
};

// One problem with its expected results.
class AttentionProblem {
 public:
  AttentionProblem(const Sizes& sizes, const Features& features, DType dtype) : s(sizes), f(features), t(dtype) {
    q_ = Block::make(s.batch, s.heads, s.queries, s.size);
    k_ = Block::make(s.batch, s.key_heads(), s.keys, s.size);
    v_ = Block::make(s.batch, s.key_heads(), s.keys, s.value_size);
    g_ = Block::make(s.batch, s.heads, s.queries, s.value_size);
    arrays["q"] = random(q_.size, 1);
    arrays["k"] = random(k_.size, 2);
    arrays["v"] = random(v_.size, 3);
    arrays["grad"] = random(g_.size, 4);
    // One for each head, query and key; the batch shares it.
    if (f.bias) arrays["bias"] = random(static_cast<size_t>(s.heads * s.queries * s.keys), 5, DType::f32);
    if (f.mask) {
      std::vector<double> mask(static_cast<size_t>(s.batch * s.keys));
      for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 7 != 3;
      arrays["mask"] = KernelArray::of(DType::boolean, mask);
    }
    if (f.lengths)
      arrays["lengths"] = KernelArray::of(DType::i32, {static_cast<double>(s.keys), static_cast<double>(s.keys / 2)});
    if (f.dropout) arrays["key"] = KernelArray::of(DType::i32, {5, 6, 7, 8});
    forward();
  }

  int64_t parts() const { return t == DType::f32 ? 1 : 3; }
  int64_t results() const { return s.rows() * s.value_size; }

  KernelConstants constants(int64_t splits, bool gradient) const {
    const auto number = [](int64_t x) { return static_cast<double>(x); };
    KernelConstants c{{"BATCH", number(s.batch)},  {"H", number(s.heads)}, {"G", number(s.group)},
                      {"M", number(s.queries)},    {"N", number(s.keys)},  {"D", number(s.size)},
                      {"E", number(s.value_size)}, {"SCALE", scale},       {"DROP", f.dropout ? drop : 0}};
    const auto add = [&](const std::string& name, const Block& x, const std::string& row) {
      c[name + "_OFF"] = number(x.offset);
      c[name + "_SB"] = number(x.sb);
      c[name + "_SH"] = number(x.sh);
      c[name + "_S" + row] = number(x.sr);
    };
    add("Q", q_, "M");
    add("K", k_, "N");
    add("V", v_, "N");
    if (gradient) add("GRAD", g_, "M");
    c["BIAS_OFF"] = c["BIAS_SB"] = 0;
    c["BIAS_SH"] = number(s.queries * s.keys);
    c["BIAS_SM"] = number(s.keys);
    c["BIAS_SN"] = 1;
    c["STATS_OFF"] = gradient ? 0 : number(splits * results());
    if (gradient) return c;
    c["SPLITS"] = number(splits);
    c["CHUNK"] = number(((s.keys + splits - 1) / splits + 3) / 4 * 4);
    return c;
  }

  KernelFile::Options options(Bindings tunables, bool gradient) const {
    KernelFile::Options o;
    o.tunables = std::move(tunables);
    o.tunables["SIZE"] = 32;
    const std::pair<const char*, bool> flags[] = {
        {"CAUSAL", f.causal}, {"BIAS", f.bias}, {"MASK", f.mask}, {"LENGTHS", f.lengths}, {"DROPOUT", f.dropout}};
    for (const auto& [name, on] : flags) o.tunables[name] = on;
    o.types = {{"T", t}, {"TO", t}, {"TB", DType::f32}};
    for (const char* name : {"bias", "mask", "lengths", "key"}) {
      if (!arrays.contains(name)) o.dropped_buffers.push_back(name);
    }
    static_cast<void>(gradient);
    return o;
  }

  bool hidden(int64_t b, int64_t m, int64_t n) const {
    if (f.causal && n > m + s.keys - s.queries) return true;
    if (f.mask && arrays.at("mask")[static_cast<size_t>(b * s.keys + n)] == 0) return true;
    return f.lengths && static_cast<double>(n) >= arrays.at("lengths")[static_cast<size_t>(b)];
  }
  double score(int64_t b, int64_t h, int64_t m, int64_t n) const {
    double x = 0;
    for (int64_t d = 0; d < s.size; ++d)
      x += arrays.at("q")[q_.at(b, h, m, d)] * arrays.at("k")[k_.at(b, h / s.group, n, d)];
    return x * scale + (f.bias ? arrays.at("bias")[static_cast<size_t>((h * s.queries + m) * s.keys + n)] : 0);
  }
  double kept(int64_t b, int64_t h, int64_t m, int64_t n) const {
    if (!f.dropout) return 1;
    const int64_t row = (b * s.heads + h) * s.queries + m;
    return philox_uniform({5, 6, 7, 8}, static_cast<uint64_t>(row * ((s.keys + 3) / 4 * 4) + n)) >=
                   static_cast<float>(drop)
               ? 1 / (1 - drop)
               : 0;
  }
  double value(int64_t b, int64_t h, int64_t n, int64_t e) const { return arrays.at("v")[v_.at(b, h / s.group, n, e)]; }
  double cotangent(int64_t b, int64_t h, int64_t m, int64_t e) const { return arrays.at("grad")[g_.at(b, h, m, e)]; }

  // dst of attention_backward.hk, for WHICH and what a bias's gradient is summed over.
  std::vector<double> gradient(int which, const Bindings& reduce) const;

  Sizes s;
  Features f;
  DType t;
  KernelArrays arrays;
  std::vector<double> result, logarithms;  // (B, M, H, E), (B, H, M)

 private:
  static constexpr double scale = 0.4, drop = 0.3;
  KernelArray random(size_t count, uint32_t stream, std::optional<DType> dtype = {}) const {
    std::vector<double> x(count);
    for (size_t i = 0; i < count; ++i) x[i] = 2.0 * philox_uniform({stream, 0, 0, 0}, i) - 1;
    return KernelArray::of(dtype.value_or(t), x);
  }
  template <class F>
  void for_each_row(F&& call) const {
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        for (int64_t m = 0; m < s.queries; ++m) call(b, h, m, static_cast<size_t>((b * s.heads + h) * s.queries + m));
      }
    }
  }
  void forward();

  Block q_, k_, v_, g_;
};

void AttentionProblem::forward() {
  result.assign(static_cast<size_t>(results()), 0);
  logarithms.assign(static_cast<size_t>(s.rows()), infinity);
  std::vector<double> delta(static_cast<size_t>(s.rows()), 0), stats;
  for_each_row([&](int64_t b, int64_t h, int64_t m, size_t row) {
    double total = 0;
    for (int64_t n = 0; n < s.keys; ++n) total += hidden(b, m, n) ? 0 : std::exp(score(b, h, m, n));
    if (total > 0) logarithms[row] = std::log(total);
    const int64_t first = ((b * s.queries + m) * s.heads + h);
    for (int64_t e = 0; e < s.value_size; ++e) {
      double x = 0;
      for (int64_t n = 0; n < s.keys; ++n)
        x += hidden(b, m, n) ? 0 : std::exp(score(b, h, m, n)) / total * kept(b, h, m, n) * value(b, h, n, e);
      result[static_cast<size_t>(first * s.value_size + e)] = x;
      delta[static_cast<size_t>(first)] += x * cotangent(b, h, m, e);
    }
  });
  for (double x : logarithms) {
    double rest = parts() == 1 ? x : x / 64;
    for (int64_t i = 0; i < parts(); ++i) {
      stats.push_back(KernelArray::of(t, {rest})[0]);
      rest = std::isinf(rest) ? 0 : rest - stats.back();
    }
  }
  arrays["stats"] = KernelArray::of(t, stats);
  arrays["delta"] = KernelArray::of(DType::f32, delta);
}

std::vector<double> AttentionProblem::gradient(int which, const Bindings& reduce) const {
  const auto reduced = [&](const char* name) { return reduce.contains(name) && reduce.find(name)->second == 1; };
  const int64_t heads = reduced("REDUCE_H") ? 1 : s.heads, queries = reduced("REDUCE_M") ? 1 : s.queries;
  const int64_t key_rows = s.batch * s.keys * s.key_heads();
  if (which == 3) {
    std::vector<double> all = gradient(1, reduce);
    const std::vector<double> queries_part = gradient(0, reduce);
    all.insert(all.end(), queries_part.begin(), queries_part.end());
    return all;
  }
  const int64_t sizes[] = {s.rows() * s.size, key_rows * (s.size + s.value_size),
                           (reduced("REDUCE_B") ? 1 : s.batch) * heads * queries * s.keys};
  std::vector<double> out(static_cast<size_t>(sizes[which]), 0);
  for_each_row([&](int64_t b, int64_t h, int64_t m, size_t row) {
    for (int64_t n = 0; n < s.keys; ++n) {
      if (hidden(b, m, n)) continue;
      const double p = std::exp(score(b, h, m, n) - logarithms[row]);
      double product = 0;
      for (int64_t e = 0; e < s.value_size; ++e) product += cotangent(b, h, m, e) * value(b, h, n, e);
      const double slope =
          p * (product * kept(b, h, m, n) - arrays.at("delta")[static_cast<size_t>((b * s.queries + m) * s.heads + h)]);
      const int64_t query_row = (b * s.queries + m) * s.heads + h,
                    key_row = (b * s.keys + n) * s.key_heads() + h / s.group;
      const auto add = [&](int64_t at, double x) { out[static_cast<size_t>(at)] += x; };
      for (int64_t d = 0; d < s.size && which < 2; ++d) {
        if (which == 0) add(query_row * s.size + d, scale * slope * arrays.at("k")[k_.at(b, h / s.group, n, d)]);
        if (which == 1) add(key_row * s.size + d, scale * slope * arrays.at("q")[q_.at(b, h, m, d)]);
      }
      for (int64_t e = 0; e < s.value_size && which == 1; ++e) {
        add(key_rows * s.size + key_row * s.value_size + e, p * kept(b, h, m, n) * cotangent(b, h, m, e));
      }
      if (which == 2)
        add((((reduced("REDUCE_B") ? 0 : b) * heads + (heads == 1 ? 0 : h)) * queries + (queries == 1 ? 0 : m)) *
                    s.keys +
                n,
            slope);
    }
  });
  return out;
}

void expect_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;  // infinities
    ASSERT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

double tolerance_of(DType t) { return t == DType::f32 ? 2e-5 : t == DType::f16 ? 1.5e-3 : 1.2e-2; }

std::string text_of(const Bindings& tunables) {
  std::string all;
  for (const auto& [name, value] : tunables) all += name + "=" + std::to_string(value) + " ";
  return all;
}

class AttentionTest : public KernelTest {
 protected:
  std::vector<Bindings> forward_schedules() const {
    const int64_t vw = on_opencl() ? 8 : 4;
    return {{{"SCHEDULE", 0}, {"LANES", 32}},
            {{"SCHEDULE", 1}, {"QB", 16}, {"KB", 16}, {"RM", 2}, {"RN", 2}},
            {{"SCHEDULE", 1}, {"QB", 32}, {"KB", 32}, {"RM", 4}, {"RN", 4}},
            {{"SCHEDULE", 2}, {"VW", vw}, {"NV", 2}, {"MR", 8}, {"KB", 16}, {"LANES", 1}},
            {{"SCHEDULE", 2}, {"VW", 4}, {"NV", 1}, {"MR", 4}, {"DU", 4}, {"KB", 32}, {"LANES", 8}},
            {{"SCHEDULE", 3}, {"VW", vw}, {"KB", 16}, {"LANES", 1}},
            {{"SCHEDULE", 3}, {"VW", 4}, {"KB", 32}, {"LANES", 8}}};
  }
  std::vector<Bindings> gradient_schedules() const {
    const int64_t vw = on_opencl() ? 8 : 4;
    return {{{"SCHEDULE", 0}, {"LANES", 32}, {"KB", 64}},
            {{"SCHEDULE", 1}, {"QB", 16}, {"KB", 16}, {"RM", 2}, {"RN", 4}},
            {{"SCHEDULE", 2}, {"VW", vw}, {"NV", 2}, {"MR", 4}, {"KB", 16}, {"LANES", 1}},
            {{"SCHEDULE", 2}, {"VW", 4}, {"NV", 1}, {"MR", 8}, {"DU", 2}, {"KB", 16}, {"LANES", 8}}};
  }

  void check_forward(const AttentionProblem& p, const Bindings& tunables, int64_t splits = 1) {
    SCOPED_TRACE(text_of(tunables));
    const KernelFile& file = KernelFile::builtin("attention");
    KernelRun r;
    r.arrays = p.arrays;
    for (const char* other : {"grad", "stats", "delta"}) r.arrays.erase(other);
    r.arrays["dst"] = KernelArray::of(
        p.t, std::vector<double>(static_cast<size_t>(splits * (p.results() + p.s.rows() * p.parts())), 77));
    r.constants = p.constants(splits, false);
    const std::vector<double> all = run(file, p.options(tunables, false), r).arrays.at("dst").values();
    std::vector<double> result, logarithms;
    join(p, all, splits, result, logarithms);
    expect_close(result, p.result, tolerance_of(p.t));
    expect_close(logarithms, p.logarithms, 2e-5);
  }

  // What each range of keys gave, as one softmax.
  static void join(const AttentionProblem& p, const std::vector<double>& all, int64_t splits,
                   std::vector<double>& result, std::vector<double>& logarithms) {
    const auto logarithm = [&](int64_t split, int64_t row) {
      const size_t first = static_cast<size_t>(splits * p.results() + (split * p.s.rows() + row) * p.parts());
      return p.parts() == 1 ? all[first] : 64 * (all[first] + all[first + 1] + all[first + 2]);
    };
    result.assign(p.result.size(), 0);
    logarithms.assign(p.logarithms.size(), infinity);
    for (int64_t row = 0; row < p.s.rows(); ++row) {
      double total = 0;
      for (int64_t i = 0; i < splits; ++i) total += std::isinf(logarithm(i, row)) ? 0 : std::exp(logarithm(i, row));
      if (total > 0) logarithms[static_cast<size_t>(row)] = std::log(total);
      const int64_t m = row % p.s.queries, h = row / p.s.queries % p.s.heads, b = row / p.s.queries / p.s.heads;
      const int64_t to = ((b * p.s.queries + m) * p.s.heads + h) * p.s.value_size;
      for (int64_t i = 0; i < splits; ++i) {
        const double weight = std::isinf(logarithm(i, row)) ? 0 : std::exp(logarithm(i, row)) / total;
        for (int64_t e = 0; e < p.s.value_size; ++e) {
          result[static_cast<size_t>(to + e)] += weight * all[static_cast<size_t>(i * p.results() + to + e)];
        }
      }
    }
  }

  void check_gradient(const AttentionProblem& p, Bindings tunables, int which, const Bindings& reduce = {}) {
    tunables["WHICH"] = which;
    for (const auto& [name, value] : reduce) tunables[name] = value;
    SCOPED_TRACE(text_of(tunables));
    const std::vector<double> expected = p.gradient(which, reduce);
    KernelRun r;
    r.arrays = p.arrays;
    r.arrays["dst"] = KernelArray::of(p.t, std::vector<double>(expected.size(), 77));
    r.constants = p.constants(1, true);
    const auto outcome = run(KernelFile::builtin("attention_backward"), p.options(tunables, true), r);
    expect_close(outcome.arrays.at("dst").values(), expected, tolerance_of(p.t) * 4);
  }
};

TEST_P(AttentionTest, ForwardLadder) {
  for (const Features& features : {no_features, all_features}) {
    const AttentionProblem p({}, features, DType::f32);
    for (const Bindings& tunables : forward_schedules()) check_forward(p, tunables);
  }
}

TEST_P(AttentionTest, OtherSizes) {
  Sizes few{1, 2, 1, 1, 5, 1, 32}, many_queries{1, 2, 2, 41, 9, 32, 3};
  for (const Sizes& sizes : {few, many_queries}) {
    const AttentionProblem p(sizes, causal, DType::f32);
    for (const Bindings& tunables : forward_schedules()) check_forward(p, tunables);
    for (const int which : {0, 1}) check_gradient(p, gradient_schedules()[2], which);
    for (const int which : {0, 1}) check_gradient(p, gradient_schedules()[1], which);
  }
}

TEST_P(AttentionTest, RangesOfKeys) {
  const AttentionProblem p({}, all_features, DType::f32);
  for (const size_t i : {1u, 3u, 5u}) check_forward(p, forward_schedules()[i], 4);
  check_forward(p, forward_schedules()[6], 11);  // lanes are ranges
}

TEST_P(AttentionTest, HalfTypes) {
  const AttentionProblem f16({}, causal, DType::f16), bf16({}, all_features, DType::bf16);
  check_forward(f16, forward_schedules()[1]);
  check_forward(bf16, forward_schedules()[3]);
  check_forward(f16, forward_schedules()[5]);
  check_gradient(f16, gradient_schedules()[2], 1);
  check_gradient(bf16, gradient_schedules()[1], 0);
  check_gradient(bf16, gradient_schedules()[0], 1);
}

TEST_P(AttentionTest, GradientLadder) {
  for (const Features& features : {causal, all_features}) {
    const AttentionProblem p({}, features, DType::f32);
    for (const Bindings& tunables : gradient_schedules()) {
      for (const int which : {0, 1}) check_gradient(p, tunables, which);
    }
  }
}

// Queries, keys and values in one kernel: D has whole vectors and a rest, the last block of queries and of keys is
// short.
TEST_P(AttentionTest, GradientsAtOnce) {
  Sizes wide{2, 4, 2, 37, 45, 30, 23};
  Bindings narrow{{"SCHEDULE", 2}, {"VW", 4}, {"NV", 1}, {"MR", 8}, {"DU", 2}, {"KB", 16}, {"LANES", 1}};
  check_gradient(AttentionProblem(wide, all_features, DType::f32), narrow, 3);
  if (!on_opencl()) return;
  check_gradient(AttentionProblem({}, causal, DType::f32), gradient_schedules()[2], 3);
  check_gradient(AttentionProblem(wide, no_features, DType::f32),
                 {{"SCHEDULE", 2}, {"VW", 16}, {"NV", 2}, {"MR", 8}, {"KB", 32}, {"LANES", 1}}, 3);
}

TEST_P(AttentionTest, BiasGradientLadder) {
  const AttentionProblem p({}, all_features, DType::f32);
  for (const Bindings& tunables : gradient_schedules()) {
    check_gradient(p, tunables, 2, {{"REDUCE_B", 1}});
    check_gradient(p, tunables, 2, {{"REDUCE_H", 1}, {"REDUCE_M", 1}});
  }
}

// One group alone: what it leaves are its own rows of the result, no element of the next group's.
TEST_P(AttentionTest, AGroupOfBiasGradientsWritesItsOwnRows) {
  const AttentionProblem p({}, all_features, DType::f32);
  const Bindings reduce{{"REDUCE_H", 1}, {"REDUCE_M", 1}};
  for (size_t schedule : {1u, 2u}) {
    Bindings tunables = gradient_schedules()[schedule];
    const size_t rows = static_cast<size_t>(schedule == 1 ? tunables["QB"] : tunables["NV"] * tunables["VW"]);
    tunables["WHICH"] = 2;
    for (const auto& [name, value] : reduce) tunables[name] = value;
    SCOPED_TRACE(text_of(tunables));
    std::vector<double> expected = p.gradient(2, reduce);
    KernelRun r;
    r.arrays = p.arrays;
    r.arrays["dst"] = KernelArray::of(p.t, std::vector<double>(expected.size(), 77));
    r.constants = p.constants(1, true);
    r.groups = {1, 1, 1};
    std::fill(expected.begin() + static_cast<std::ptrdiff_t>(rows), expected.end(), 77);
    const auto outcome = run(KernelFile::builtin("attention_backward"), p.options(tunables, true), r);
    expect_close(outcome.arrays.at("dst").values(), expected, tolerance_of(p.t) * 4);
  }
}

// What the tables of defaults choose is what the files accept, on every class of device.
TEST(AttentionSchedule, DefaultsInstantiate) {
  Caps cpu, lavapipe, gpu, small;
  cpu.device_class = lavapipe.device_class = DeviceClass::cpu;
  cpu.target = Target::opencl;
  lavapipe.target = Target::glsl;
  gpu.device_class = small.device_class = DeviceClass::discrete_gpu;
  gpu.target = Target::cuda;
  gpu.shared_bytes = 49152;
  small.target = Target::glsl;
  small.shared_bytes = 16384;
  for (const Caps& caps : {cpu, lavapipe, gpu, small}) {
    for (const int64_t size : {1, 16, 40, 64, 80, 128, 192, 256}) {
      for (const int64_t queries : {1, 12, 1000}) {
        AttentionSizes s;
        s.size = size;
        s.queries = queries;
        KernelFile::Options o;
        o.tunables = pick_attention(caps, s);
        const KernelSource forward = KernelFile::builtin("attention").instantiate(o);
        const auto shared_bytes = [](const KernelSource& source) {
          uint32_t bytes = 0;
          for (const SharedParam& a : source.shared) bytes += 4 * a.count;
          return bytes;
        };
        EXPECT_LE(shared_bytes(forward), caps.shared_bytes);
        for (const int which : {0, 1, 2, 3}) {
          if (which == 3 && !attention_gradients_at_once(caps, s)) continue;
          o.tunables = pick_attention_gradient(caps, s, {which});
          EXPECT_LE(shared_bytes(KernelFile::builtin("attention_backward").instantiate(o)), caps.shared_bytes);
        }
      }
    }
  }
}

HEDDLE_ON_DEVICES(AttentionTest);

}  // namespace
}  // namespace heddle::test
