// Bugs put into the text of Heddle's kernels, which NVRTC compiles: the executor reports each, and none in the text as
// it is.
#include "heddle/backend_cuda/nvrtc.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/dialect/printer.h"
#include "tests/ptx/formats.h"
#include "tests/ptx/ptx_test.h"

namespace heddle::ptx {
namespace {

constexpr int architecture = 90;

// A product, a sum of rows, or a sum over groups of lanes; what it gives is compared with sums in C++.
enum class Kernel { tiles, units, warpgroups, rows, lanes };

struct Planted {
  const char* name;
  Kernel kernel;
  const char* find;  // in the printed text, behind `after`
  const char* replace;
  FaultKind kind;
  bool wrong_values = false;  // no lane does what it must not: the result is wrong
  const char* after = "heddle_kernel(";
};

std::ostream& operator<<(std::ostream& out, const Planted& p) { return out << p.name; }

// Multiples of 1/4 whose sums of products are exact.
std::vector<float> quarters(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random() % 16) / 4 - 2;
  return values;
}
std::vector<uint16_t> halves(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float v : values) bits.push_back(static_cast<uint16_t>(F16::round(static_cast<double>(v))));
  return bits;
}

std::string printed(const char* file, const Bindings& tunables, DType type) {
  KernelFile::Options o;
  o.tunables = tunables;
  if (type != DType::f32) o.types = {{"TA", type}, {"TB", type}};
  return print(KernelFile::builtin(file).instantiate(o), Target::cuda);
}

constexpr uint32_t m = 40, n = 48, short_k = 56, long_k = 200;

std::string text_of(Kernel kernel) {
  switch (kernel) {
    case Kernel::tiles:
      return printed(
          "matmul",
          {{"SCHEDULE", 1}, {"TM", 32}, {"TN", 32}, {"TK", 16}, {"RM", 4}, {"RN", 4}, {"A_K1", 1}, {"B_N1", 1}},
          DType::f32);
    case Kernel::units:
      return printed("matmul",
                     {{"SCHEDULE", 5},
                      {"ELEMENT", 0},
                      {"UNIT_LANES", 32},
                      {"TM", 32},
                      {"TN", 32},
                      {"TK", 32},
                      {"WM", 16},
                      {"WN", 32},
                      {"STAGES", 2},
                      {"A_WIDE", 8},
                      {"B_WIDE", 8},
                      {"A_K1", 1},
                      {"B_N1", 1}},
                     DType::f16);
    case Kernel::warpgroups:
      return printed("matmul",
                     {{"SCHEDULE", 7},
                      {"WARPGROUPS", 1},
                      {"ELEMENT", 0},
                      {"TM", 64},
                      {"TN", 64},
                      {"TK", 64},
                      {"WGM", 64},
                      {"WGN", 64},
                      {"STAGES", 3},
                      {"A_WIDE", 8},
                      {"B_WIDE", 8},
                      {"A_K1", 1},
                      {"B_N1", 1}},
                     DType::f16);
    case Kernel::rows:
      return printed("reduce", {{"SCHEDULE", 0}, {"LANES", 64}}, DType::f32);
    default: {
      KernelSource s;
      s.name = "lanes";
      s.buffers = {{"x", DType::f32, Access::read}, {"y", DType::f32, Access::write}};
      s.shared = {{"scratch", "float", 64}};
      s.group = {64, 1, 1};
      s.body =
          "uint i = GROUP_ID(0) * GROUP_SIZE(0) + LOCAL_ID(0);\nfloat sum = LOAD(x, i);\nGROUP_SUM(sum, scratch)\n"
          "STORE(y, i, sum);\n";
      return print(s, Target::cuda);
    }
  }
}

// The result and what it should be.
struct Outcome {
  std::vector<float> got, want;
};

Outcome product(PtxRun& run, Kernel kernel) {
  const bool half = kernel != Kernel::tiles, warpgroups = kernel == Kernel::warpgroups;
  const uint32_t k = warpgroups ? long_k : short_k, tile = warpgroups ? 64 : 32, lanes = warpgroups ? 128 : 64;
  const std::vector<float> a = quarters(m * k, 1), b = quarters(k * n, 2);
  std::vector<uint16_t> ah = halves(a), bh = halves(b);
  std::vector<float> af = a, bf = b;
  Outcome o{std::vector<float>(m * n), std::vector<float>(m * n)};
  half ? run.argument(ah).argument(bh) : run.argument(af).argument(bf);
  run.argument(o.got);
  for (const uint32_t constant : {m, n, k, 1u, 1u, 0u, 0u, 0u, k, 1u, 0u, 0u, 0u, n, 1u}) run.number(constant);
  run.launch((m + tile - 1) / tile * ((n + tile - 1) / tile), lanes);
  for (uint32_t i = 0; i < m; ++i) {
    for (uint32_t j = 0; j < n; ++j) {
      for (uint32_t l = 0; l < k; ++l) o.want[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  return o;
}

Outcome sums(PtxRun& run, bool rows) {
  constexpr uint32_t count = 3, length = 64;
  std::vector<float> x = quarters(count * length, 3);
  Outcome o{std::vector<float>(rows ? count : count * length), {}};
  run.argument(x).argument(o.got);
  if (rows) {
    for (const uint32_t constant : {count, length, 0u, length, 1u}) run.number(constant);
  }
  run.launch(count, 64);
  for (uint32_t i = 0; i < o.got.size(); ++i) {
    const uint32_t row = rows ? i : i / length;
    float sum = 0;
    for (uint32_t l = 0; l < length; ++l) sum += x[row * length + l];
    o.want.push_back(sum);
  }
  return o;
}

Outcome execute(Kernel kernel, const std::string& text) {
  PtxRun run(cuda::compile_ptx(text, "planted", architecture), "heddle_kernel");
  if (kernel <= Kernel::warpgroups) return product(run, kernel);
  return sums(run, kernel == Kernel::rows);
}

class PlantedBugs : public testing::TestWithParam<Planted> {
 protected:
  void SetUp() override {
    std::string absent;
    if (!cuda::have_nvrtc(&absent)) GTEST_SKIP() << absent;
  }
};

TEST_P(PlantedBugs, AreReported) {
  const Planted& bug = GetParam();
  std::string text = text_of(bug.kernel);
  const size_t after = text.find(bug.after);
  ASSERT_NE(after, text.npos);
  const size_t at = text.find(bug.find, after);
  ASSERT_NE(at, text.npos) << bug.find << " is not in:\n" << text.substr(after);
  text.replace(at, std::string(bug.find).size(), bug.replace);
  if (bug.wrong_values) {
    const Outcome o = execute(bug.kernel, text);
    EXPECT_NE(o.got, o.want);
    return;
  }
  const Fault fault = fault_of([&] { execute(bug.kernel, text); });
  EXPECT_EQ(fault.kind, bug.kind) << fault.what();
  EXPECT_NE(std::string(fault.what()).find("lane "), std::string::npos) << fault.what();
}

class KernelsAsTheyAre : public PlantedBugs {};
TEST_P(KernelsAsTheyAre, GiveTheirSums) {
  const Outcome o = execute(GetParam().kernel, text_of(GetParam().kernel));
  EXPECT_EQ(o.got, o.want);
}

constexpr const char* barrier = "BARRIER();";
const Planted bugs[] = {
    {"BarrierInFrontOfTheProductDropped", Kernel::tiles, "BARRIER();\n    MULTIPLY_TILES(0)", "MULTIPLY_TILES(0)",
     FaultKind::race},
    {"BarrierBehindTheProductDropped", Kernel::tiles, "MULTIPLY_TILES(0)\n    BARRIER();", "MULTIPLY_TILES(0)",
     FaultKind::race},
    {"StoreOneRowTooFar", Kernel::tiles, "if (m < M && n < N) EPILOGUE", "if (m <= M && n < N) EPILOGUE",
     FaultKind::bounds},
    {"SharedArrayTooShort", Kernel::tiles, "b_tile[", "b_tile[-64 + ", FaultKind::bounds},
    {"WaitForTheTilesDropped", Kernel::units, "ASYNC_WAIT(STAGES - 2);", "", FaultKind::in_flight},
    {"WaitForOneTileLess", Kernel::units, "ASYNC_WAIT(STAGES - 2);", "ASYNC_WAIT(STAGES - 1);", FaultKind::in_flight},
    {"TileFilledThatIsStillRead", Kernel::units, "FILL_STAGE((stage + STAGES - 1u) % STAGES", "FILL_STAGE(stage",
     FaultKind::in_flight},
    {"BarrierOfTheUnitDropped", Kernel::units, "UNIT_BARRIER();\n    for (uint e", "for (uint e", FaultKind::race},
    {"FragmentsOfAnotherLayout", Kernel::units, "\"=r\"(f.r[1]), \"=r\"(f.r[2])", "\"=r\"(f.r[2]), \"=r\"(f.r[1])",
     FaultKind::other, true, "void hk_ldmatrix("},
    {"RowsOfAFragmentAtHalfTheirPlace", Kernel::units, "l / 16u * 4u", "l / 16u * 2u", FaultKind::misaligned, false,
     "void hk_mma_load_a("},
    {"CopyOfAMisalignedVector", Kernel::units, "name, base + AT_S", "name, base + 1u + AT_S", FaultKind::misaligned},
    {"HalfOfATileNotFilled", Kernel::units, "i < span * TK / (4 * E)", "i < span * TK / (8 * E)",
     FaultKind::uninitialised},
    {"FenceBetweenProxiesDropped", Kernel::warpgroups, "WG_SHOW();", "", FaultKind::not_shown},
    {"FenceOfRegistersDropped", Kernel::warpgroups, "WG_FENCE();", "", FaultKind::in_flight},
    {"BarrierOfTheTilesDropped", Kernel::warpgroups, "WG_SHOW();\n    BARRIER();", "WG_SHOW();", FaultKind::race},
    {"WaitForTheSumsDropped", Kernel::warpgroups, "WG_WAIT(0);", "", FaultKind::in_flight},
    {"WaitForOneProductLess", Kernel::warpgroups, "WG_WAIT(STAGES - 1 - AHEAD);", "WG_WAIT(2);", FaultKind::in_flight},
    {"TileFilledThatIsMultiplied", Kernel::warpgroups, "FILL_STAGE((stage + AHEAD) % STAGES", "FILL_STAGE(stage",
     FaultKind::in_flight},
    {"PiecesNotSwizzled", Kernel::warpgroups, "(((w) >> 5u & 7u) << 2u)", "0u", FaultKind::other, true,
     "#define WG_SWIZZLE"},
    {"StrideOfAnotherLayout", Kernel::warpgroups, "64ull << 32", "32ull << 32", FaultKind::other, true,
     "hk_wg_matrix(const"},
    {"SumsOfAnotherLayout", Kernel::warpgroups, "(i) / 2u % 2u * 8u", "(i) % 2u * 8u", FaultKind::other, true,
     "#define WG_ROW"},
    {"BarrierOfSomeLanes", Kernel::rows, barrier, "if (lane < 50u) BARRIER();", FaultKind::barrier},
    {"LanesThatLeaveEarly", Kernel::rows, "partial[lane] = x;", "if (lane >= 60u) return; partial[lane] = x;",
     FaultKind::barrier},
    {"LanesAtOnePlace", Kernel::rows, "partial[lane] = x;", "partial[lane / 2u] = x;", FaultKind::race},
    {"TreeOneLevelTooHigh", Kernel::rows, "uint half_ = LANES / 2;", "uint half_ = LANES;", FaultKind::bounds},
    {"RowsOfTwoBlocksAtOnePlace", Kernel::rows, "EPILOGUE(total, row);", "EPILOGUE(total, row / 2u);", FaultKind::race},
    {"ReadOneColumnTooFar", Kernel::rows, "c < C;", "c <= C;", FaultKind::bounds},
    {"ReadOfWhatAnotherBlockWrites", Kernel::lanes, "GROUP_SUM(sum, scratch)", "sum += LOAD(y, (i + 64u) % 192u);",
     FaultKind::race},
    {"ShuffleOfHalfAWarp", Kernel::lanes, "0xffffffffu", "0x0000ffffu", FaultKind::warp, false, "HK_SHUFFLE_MASK"},
    {"ShuffleThatSomeLanesMiss", Kernel::lanes, "GROUP_SUM(sum, scratch)",
     "if (LOCAL_ID(0) % 32u < 16u) sum += SHUFFLE_XOR(sum, 1);", FaultKind::warp},
};
INSTANTIATE_TEST_SUITE_P(Kernels, PlantedBugs, testing::ValuesIn(bugs),
                         [](const auto& i) { return std::string(i.param.name); });

const Planted kernels[] = {{"Tiles", Kernel::tiles, "", "", FaultKind::other},
                           {"Units", Kernel::units, "", "", FaultKind::other},
                           {"Warpgroups", Kernel::warpgroups, "", "", FaultKind::other},
                           {"Rows", Kernel::rows, "", "", FaultKind::other},
                           {"Lanes", Kernel::lanes, "", "", FaultKind::other}};
INSTANTIATE_TEST_SUITE_P(Kernels, KernelsAsTheyAre, testing::ValuesIn(kernels),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace heddle::ptx
