// Sums that pickers of tunables leave in a CPU's registers, by how many floats these hold: no device is asked.
#include "heddle/core/tiles/cpu_registers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>

#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/tiles/attention_tiles.h"
#include "heddle/core/tiles/conv_tiles.h"
#include "heddle/core/tiles/matmul_tiles.h"
#include "heddle/core/tiles/packed_tiles.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {
namespace {

Caps caps_with(uint32_t register_floats) {
  Caps caps;
  caps.device_class = DeviceClass::cpu;
  caps.target = Target::opencl;
  caps.known_machine = Machine::cpu_loops;
  caps.compute_units = 2;
  caps.register_floats = register_floats;
  return caps;
}

class Draws {
 public:
  template <size_t Count>
  int64_t one_of(const std::array<int64_t, Count>& values) {
    return values[std::uniform_int_distribution<size_t>(0, Count - 1)(engine_)];
  }
  bool coin() { return one_of<2>({0, 1}) != 0; }

 private:
  std::mt19937 engine_{7};
};

int64_t value(const Bindings& row, const char* name) {
  const auto found = row.find(name);
  return found == row.end() ? 1 : found->second;
}

// Floats of the sums that a kernel holds beside each other.
int64_t floats_of(const std::string& body, const Bindings& row) {
  const int64_t schedule = value(row, "SCHEDULE"), vw = value(row, "VW"), mr = value(row, "MR"), nv = value(row, "NV");
  if (body == "matmul") return schedule == 4 ? mr * value(row, "NR") * vw : schedule == 6 ? 0 : mr * nv * vw;
  if (body == "conv") return schedule == 4 || schedule == 8 ? 7 * vw : mr * nv * value(row, "MI") * vw;
  if (body == "conv_weight_grad" && schedule == 4) return mr * value(row, "KB") * value(row, "KW") * vw;
  if (body == "conv_weight_grad" && schedule == 9) return value(row, "KH") * value(row, "KW") * vw;
  return mr * nv * vw;
}

void expect_fit(const Caps& caps, const std::string& body, const Bindings& row) {
  std::string text = body;
  for (const auto& [name, number] : row) text += " " + name + "=" + std::to_string(number);
  EXPECT_EQ(KernelFile::builtin(body).refusal(row), "") << text;
  EXPECT_LE(value(row, "VW"), std::max<int64_t>(register_width(caps), body == "matmul" ? 16 : 8)) << text;
  // An eighth is left for what sums are made of.
  EXPECT_LE(floats_of(body, row), static_cast<int64_t>(caps.register_floats) * 7 / 8) << text;
}

MatmulProblem drawn_product(Draws& draw) {
  const std::array<int64_t, 14> sizes{1, 2, 3, 5, 8, 10, 16, 31, 32, 64, 100, 128, 784, 2048};
  MatmulProblem p{draw.one_of(sizes), draw.one_of(sizes), draw.one_of(sizes), draw.one_of<2>({1, 12})};
  (draw.coin() ? p.a_k1 : p.a_m1) = true;
  (draw.coin() ? p.b_n1 : p.b_k1) = true;
  p.prologue_a = draw.one_of<4>({0, 0, 0, 1}) != 0;
  return p;
}

ConvProblem drawn_convolution(Draws& draw, ConvProblem::Kind kind) {
  const std::array<int64_t, 9> channels{1, 2, 3, 8, 16, 33, 64, 96, 320};
  ConvProblem p;
  p.kind = kind;
  p.N = draw.one_of<4>({1, 2, 8, 32});
  p.G = draw.one_of<3>({1, 1, 16});
  p.CG = draw.one_of(channels);
  p.OG = p.G > 1 ? p.CG : draw.one_of(channels);
  const int64_t size = draw.one_of<7>({1, 4, 7, 13, 14, 28, 56}), kernel = draw.one_of<3>({1, 3, 5}),
                stride = draw.one_of<2>({1, 2});
  p.in = {1, size, size};
  p.kernel = {1, kernel, kernel};
  p.stride = {1, stride, stride};
  p.pad = {0, kernel / 2, kernel / 2};
  const int64_t out = (size + 2 * p.pad[1] - kernel) / stride + 1;
  p.out = {1, out, out};
  if (kind == ConvProblem::Kind::input_grad) std::swap(p.in, p.out);
  p.x_w1 = p.g_w1 = p.w_k1 = p.w_c1 = p.sized = true;
  p.flat = meets_one_by_one(p);
  return p;
}

class CpuRegisters : public testing::TestWithParam<uint32_t> {
 protected:
  const TuningOff off_;
  const Caps caps_ = caps_with(GetParam());
  Draws draw_;
};

TEST_P(CpuRegisters, HoldTheSumsOfProducts) {
  for (int i = 0; i < 2000; ++i) expect_fit(caps_, "matmul", pick_matmul(caps_, drawn_product(draw_)));
}

TEST_P(CpuRegisters, HoldTheSumsOfConvolutions) {
  for (int i = 0; i < 600; ++i) {
    for (const auto kind : {ConvProblem::Kind::forward, ConvProblem::Kind::input_grad})
      expect_fit(caps_, "conv", pick_conv(caps_, drawn_convolution(draw_, kind)));
    expect_fit(caps_, "conv_weight_grad",
               pick_conv_weight_grad(caps_, drawn_convolution(draw_, ConvProblem::Kind::weight_grad)));
  }
}

TEST_P(CpuRegisters, HoldTheSumsOfAttention) {
  for (const int64_t queries : {8, 16, 100, 1024}) {
    AttentionSizes s;
    s.batch = 2;
    s.heads = 4;
    s.group = 1;
    s.queries = s.keys = queries;
    s.size = 64;
    expect_fit(caps_, "attention", pick_attention(caps_, s));
  }
}

TEST_P(CpuRegisters, HoldTheSumsOfPackedProducts) {
  for (const int64_t rows : {17, 64, 1000}) {
    const Bindings row = pick_matmul_packed(caps_, GgmlType::q4_0, rows, 4096, 4096);
    ASSERT_EQ(row.at("SCHEDULE"), 2);
    EXPECT_LE(row.at("MR") * 32, static_cast<int64_t>(GetParam()) * 7 / 8);
    EXPECT_GE(row.at("MR") * row.at("MB"), std::min<int64_t>(rows, 32));
  }
}

INSTANTIATE_TEST_SUITE_P(, CpuRegisters, testing::Values(512u, 128u),
                         [](const auto& each) { return each.param == 512u ? "OfAvx512" : "OfAvx2"; });

}  // namespace
}  // namespace heddle
