// matmul.hk: every schedule against a triple loop, at sizes that fit no tile, with strides, offsets, batches, types and
// hooks.
#include <algorithm>
#include <map>

#include "heddle/core/tiles/matmul_tiles.h"
#include "tests/kernels/matmul_case.h"

namespace heddle::test {
namespace {

class MatmulTest : public MatmulCase {
 protected:
  // The largest vector of the target.
  int64_t width() const { return on_opencl() ? 16 : 4; }
  // Small enough for the registers of lanes that are not CPU threads.
  Bindings columns() const { return {{"SCHEDULE", 2}, {"VW", width()}, {"MR", 4}, {"NV", 2}, {"MB", 2}}; }
  Bindings packed() const {
    return {{"SCHEDULE", 3}, {"VW", width()}, {"MR", 3}, {"NV", 1}, {"MB", 2}, {"NB", 2}, {"KC", 64}, {"PACK_A", 0}};
  }
  Bindings dot() const { return {{"SCHEDULE", 4}, {"VW", width()}, {"MR", 3}, {"NR", 2}, {"NB", 2}}; }
  Bindings stream() const { return {{"SCHEDULE", 6}, {"VW", width()}, {"MR", 3}, {"WIDE", 64}, {"KU", 4}}; }
  Bindings bytes(int64_t kind) const {
    return {{"SCHEDULE", 3}, {"VW", width()}, {"MR", 3},     {"NV", 1},     {"MB", 2},
            {"NB", 2},       {"KC", 64},      {"PACK_A", 1}, {"INT8", kind}};
  }
  static Bindings tiles() { return {{"SCHEDULE", 1}, {"TM", 16}, {"TN", 32}, {"TK", 8}, {"RM", 2}, {"RN", 4}}; }
};

TEST_P(MatmulTest, OneOutputPerLane) {
  for (const char* form : {"NN", "TT"}) check_sizes({{"SCHEDULE", 0}}, form);
}

TEST_P(MatmulTest, SharedTiles) {
  for (const char* form : {"NN", "NT", "TN", "TT"}) check_sizes(tiles(), form);
}

TEST_P(MatmulTest, Columns) {
  for (const char* form : {"NN", "TN"}) check_sizes(columns(), form);
  Bindings along_n = columns();
  along_n["ORDER"] = 1;
  along_n["LANES"] = 8;
  check_sizes(along_n, "NN");
}

TEST_P(MatmulTest, ColumnsGatheredWhenStrided) { check_sizes(columns(), "NT"); }

// Copied blocks of the right operand (transposed in registers for TT) or of both; 65 and 131 are deeper than the 64
// that is copied at a time.
TEST_P(MatmulTest, Packed) {
  Bindings both = packed();
  both["PACK_A"] = 1;
  for (const char* form : {"NN", "TT"}) {
    check_sizes(packed(), form);
    check_sizes(both, form);
  }
}

TEST_P(MatmulTest, Dot) { check_sizes(dot(), "NT"); }

// Gathered for NT.
TEST_P(MatmulTest, Stream) {
  for (const char* form : {"NN", "TN", "NT"}) check_sizes(stream(), form);
  Bindings one = stream();
  one["KU"] = 1;
  check(one, dense("NN", 2, 70, 13));
}

// Floats multiply them, integers hold what is deeper than KC; 131 is deeper than the 64 that is copied at a time.
TEST_P(MatmulTest, PackedBytes) {
  check_sizes(bytes(1), "NN", {DType::i8, DType::i8, DType::i32, DType::i32});
  check_sizes(bytes(2), "TT", {DType::u8, DType::i8, DType::i32, DType::i32});
}

// The largest products: sums beyond what a float holds exactly.
TEST_P(MatmulTest, PackedBytesAreExact) {
  struct Kind {
    DType a, b;
    double x, y;
    int64_t kind, depth;
  };
  for (const Kind& kind :
       {Kind{DType::i8, DType::i8, -128, -127, 1, 1024}, Kind{DType::u8, DType::u8, 255, 255, 2, 256}}) {
    const Problem p = dense("NN", 4, 21, 2311);
    const Types types{kind.a, kind.b, DType::i32, DType::i32};
    KernelRun r = prepare(p, types);
    r.arrays["lhs"] = KernelArray::of(kind.a, std::vector<double>(p.a_size, kind.x));
    r.arrays["rhs"] = KernelArray::of(kind.b, std::vector<double>(p.b_size, kind.y));
    Bindings t = bytes(kind.kind);
    // The panels lie in private memory; NVIDIA's Vulkan compiler refuses those of the depth that CPUs choose.
    t["KC"] = on_vulkan_gpu() ? 64 : kind.depth;
    EXPECT_EQ(run(file_, options(t, p, types), r).arrays.at("dst").values(),
              std::vector<double>(4 * 21, kind.x * kind.y * 2311));
  }
  EXPECT_NE(file_.refusal({{"SCHEDULE", 3}, {"VW", 4}, {"PACK_A", 1}, {"KC", 2048}, {"INT8", 1}}), "");
  EXPECT_NE(file_.refusal({{"SCHEDULE", 3}, {"VW", 4}, {"PACK_A", 1}, {"KC", 512}, {"INT8", 2}}), "");
}

TEST_P(MatmulTest, NarrowVectors) {
  for (const int64_t vw : {1, 4, 8}) {
    if (vw == 8 && !on_opencl()) continue;
    Bindings t = columns();
    t["VW"] = vw;
    t["NV"] = 1;
    check_sizes(t, "NN");
  }
}

// Negative, zero and wide strides with an offset, in a batch whose one dimension is broadcast.
TEST_P(MatmulTest, AnyStrides) {
  Problem p{7, 21, 10, 2, 3};
  p.a = {6 * 24 + 5, 7 * 24, 0, -24, 2};
  p.b = {3, 0, 1000, 44, 2};
  p.a_size = 14 * 24 + 40;
  p.b_size = 3 * 1000;
  Bindings both = packed();
  both["PACK_A"] = 1;
  for (const Bindings& t : {Bindings{{"SCHEDULE", 0}}, tiles(), columns(), packed(), both, stream()}) check(t, p);
}

TEST_P(MatmulTest, HalfTypes) {
  for (const Types& types : {Types{DType::f16, DType::f16, DType::f16}, Types{DType::bf16, DType::f32, DType::bf16}}) {
    check_sizes(tiles(), "NN", types);
    check_sizes(columns(), "NN", types);
    Bindings both = packed();
    both["PACK_A"] = 1;
    check_sizes(both, "NT", types);
    check_sizes(dot(), "NT", types);
    check_sizes(stream(), "NN", types);
  }
}

TEST_P(MatmulTest, WideAndIntegerTypes) {
  const Problem p = dense("NN", 9, 19, 13);
  check({{"SCHEDULE", 0}}, p, {DType::i32, DType::i32, DType::i32, DType::i32});
  check({{"SCHEDULE", 0}}, p, {DType::i8, DType::u8, DType::i32, DType::i32});
  if (caps().f64) check({{"SCHEDULE", 0}}, p, {DType::f64, DType::f64, DType::f64, DType::f64});
  if (caps().i64) check({{"SCHEDULE", 0}}, p, {DType::i64, DType::i64, DType::i64, DType::i64});
}

// relu(a) times -b, plus a bias row, added to what stands in `sum` already: in place, so each element must be finished
// once.
TEST_P(MatmulTest, Hooks) {
  const Problem p = dense("NN", 13, 37, 21);
  const Problem transposed = dense("NT", 13, 37, 21);
  const std::vector<double> bias = quarters(37, 3);
  const std::vector<double> before = quarters(13 * 37, 4);
  for (const Bindings& t : {Bindings{{"SCHEDULE", 0}}, tiles(), columns(), packed(), dot(), stream()}) {
    const Problem& q = t.at("SCHEDULE") == 4 ? transposed : p;
    KernelRun r = prepare(q, {});
    r.arrays.erase("dst");
    r.arrays["bias"] = KernelArray::of(DType::f32, bias);
    r.arrays["sum"] = KernelArray::of(DType::f32, before);
    r.constants["scale"] = 0.5;
    KernelFile::Options o = options(t, q, {});
    o.dropped_buffers = {"dst"};
    o.extra_buffers = {{"bias", DType::f32, Access::read}, {"sum", DType::f32, Access::read_write}};
    o.extra_constants = {{"scale", ConstParam::Type::f32}};
    o.hooks["PROLOGUE_A"] = "max(x, 0.0f)";
    o.hooks["PROLOGUE_B"] = "(-(x))";
    o.hooks["EPILOGUE"] =
        "{\n  uint t_i = (m) * N + (n);  // dense\n  float t_v = (x) + LOAD(bias, n);\n"
        "  STORE(sum, t_i, LOAD(sum, t_i) + scale * t_v);\n}";
    const auto want = expected(
        q, r, [](double x) { return std::max(x, 0.0); }, [](double x) { return -x; },
        [&](double x, int64_t m, int64_t n) {
          return before[static_cast<size_t>(m * 37 + n)] + 0.5 * (x + bias[static_cast<size_t>(n)]);
        });
    EXPECT_EQ(run(file_, o, r).arrays.at("sum").values(), want) << "schedule " << t.at("SCHEDULE");
  }
}

// What pick_matmul chooses runs and is right, for shapes of an MLP and awkward ones.
TEST_P(MatmulTest, PickedSchedules) {
  const struct {
    const char* form;
    int64_t m, n, k;
  } cases[] = {{"NT", 32, 128, 784}, {"NT", 32, 10, 64},    {"NN", 32, 64, 10},    {"NN", 32, 128, 64},
               {"TN", 128, 784, 32}, {"TN", 10, 64, 32},    {"TT", 33, 17, 9},     {"NN", 1, 1, 5},
               {"NN", 7, 3, 2},      {"NN", 100, 700, 800}, {"TT", 100, 100, 100}, {"NT", 97, 130, 1100},
               {"NN", 130, 150, 1},  {"NN", 1, 300, 200},   {"NN", 300, 1, 200},   {"NN", 3, 2100, 70},
               {"NN", 70, 3, 130},   {"NT", 97, 15, 130}};
  for (const auto& c : cases) {
    const Problem p = dense(c.form, c.m, c.n, c.k);
    const MatmulProblem problem{c.m, c.n, c.k, 1, p.a.rows == 1, p.a.columns == 1, p.b.rows == 1, p.b.columns == 1};
    check(pick_matmul(caps(), problem), p);
  }
}

TEST_P(MatmulTest, PickedSchedulesOfBytes) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{65, 130, 300}, {3, 40, 20}, {1, 20, 30}, {20, 3, 9}}) {
    const Problem p = dense("NT", m, n, k);
    MatmulProblem problem{m, n, k, 1, p.a.rows == 1, p.a.columns == 1, p.b.rows == 1, p.b.columns == 1};
    problem.a = problem.a_value = DType::u8;
    problem.b = problem.b_value = DType::i8;
    check(pick_matmul(caps(), problem), p, {DType::u8, DType::i8, DType::i32, DType::i32});
  }
}

TEST_P(MatmulTest, SameBitsInEveryRun) {
  const Problem p = dense("NN", 33, 65, 257);
  KernelRun r = prepare(p, {});
  uint64_t state = 9;
  for (const char* name : {"lhs", "rhs"}) {
    std::vector<double> values = r.arrays.at(name).values();
    for (double& v : values) v = quarter(state) * 0.7193;
    r.arrays[name] = KernelArray::of(DType::f32, values);
  }
  const auto o = options(columns(), p, {});
  EXPECT_EQ(run(file_, o, r).arrays.at("dst").bytes, run(file_, o, r).arrays.at("dst").bytes);
}

HEDDLE_ON_DEVICES(MatmulTest);

// Whatever a device looks like, the choice is one that the file accepts.
TEST(PickMatmul, IsAlwaysValid) {
  const KernelFile& file = KernelFile::builtin("matmul");
  std::map<Bindings, uint32_t> lanes_of;  // of a group; few schedules are picked, each many times
  for (const DeviceClass c : {DeviceClass::cpu, DeviceClass::integrated_gpu, DeviceClass::discrete_gpu}) {
    for (const Target target : {Target::glsl, Target::opencl, Target::cuda}) {
      for (const uint32_t lanes : {64u, 128u, 1024u}) {
        Caps caps;
        caps.device_class = c;
        caps.target = target;
        caps.max_group_lanes = lanes;
        caps.compute_units = 16;
        for (const int64_t m : {0, 1, 7, 32, 100, 1024, 100000}) {
          for (const int64_t n : {0, 1, 7, 10, 32, 1024}) {
            for (const int64_t k : {0, 1, 8, 1024}) {
              for (int flags = 0; flags < 16; ++flags) {
                MatmulProblem p{m, n, k, 1, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0};
                p.a = n == 7 ? DType::i32 : DType::f16;
                KernelFile::Options o;
                o.tunables = pick_matmul(caps, p);
                const auto [found, added] = lanes_of.try_emplace(o.tunables);
                if (added) found->second = file.instantiate(o).group[0];
                EXPECT_LE(found->second, lanes);
                if (p.a == DType::i32) {
                  EXPECT_EQ(o.tunables.at("SCHEDULE"), 0);
                }
                if (target != Target::opencl && o.tunables.contains("VW")) {
                  EXPECT_LE(o.tunables.at("VW"), 4);
                }
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace heddle::test
