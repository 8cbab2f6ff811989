// Instructions of a warp and of matrix units, against loops over their lanes and over rows and columns.
#include <algorithm>
#include <numeric>

#include "tests/ptx/formats.h"
#include "tests/ptx/ptx_test.h"

namespace heddle::ptx {
namespace {

constexpr size_t lanes = 96;

TEST(PtxWarp, Shuffles) {
  std::vector<uint32_t> a(lanes), by(lanes);
  std::iota(a.begin(), a.end(), 1000u);
  for (size_t i = 0; i < lanes; ++i) by[i] = static_cast<uint32_t>(i * 7);
  const auto run = [&](const std::string& how, const std::string& amount, const std::string& clamp) {
    return compute<uint32_t>(
        "shfl.sync." + how + ".b32 %d|%p, %a, " + amount + ", " + clamp + ", -1;\n@!%p add.u32 %d, %d, 5000;", a, by);
  };
  const auto xor_ = run("bfly", "5", "31"), up = run("up", "3", "0"), down = run("down", "3", "31"),
             index = run("idx", "%b", "31"), half = run("down", "1", "0x100f");
  for (size_t i = 0; i < lanes; ++i) {
    const size_t first = i / 32 * 32, l = i % 32;
    EXPECT_EQ(xor_[i], a[first + (l ^ 5)]);
    EXPECT_EQ(up[i], l < 3 ? a[i] + 5000 : a[i - 3]);
    EXPECT_EQ(down[i], l > 28 ? a[i] + 5000 : a[i + 3]);
    EXPECT_EQ(index[i], a[first + by[i] % 32]);
    EXPECT_EQ(half[i], l % 16 == 15 ? a[i] + 5000 : a[i + 1]) << "segments of 16";
  }
}

TEST(PtxWarp, VotesAndReductions) {
  const auto a = numbers<uint32_t>(lanes, 3);
  const auto ballot = compute<uint32_t>("setp.gt.s32 %p, %a, 50;\nvote.sync.ballot.b32 %d, %p, -1;", a);
  const auto any =
      compute<uint32_t>("setp.eq.u32 %p, %a, 12345;\nvote.sync.any.pred %q, !%p, -1;\nselp.u32 %d, 1, 0, %q;", a);
  const auto least = compute<uint32_t>("redux.sync.min.s32 %d, %a, -1;", a);
  const auto here = compute<uint32_t>(
      "mov.u32 %t0, %laneid;\nmov.u32 %d, 0;\nsetp.lt.u32 %p, %t0, 7;\n@!%p bra END;\nactivemask.b32 "
      "%d;\nEND:\nadd.u32 %d, %d, 0;",
      a);
  for (size_t i = 0; i < lanes; ++i) {
    uint32_t want = 0;
    int32_t low = std::numeric_limits<int32_t>::max();
    for (size_t l = 0; l < 32; ++l) {
      const auto v = static_cast<int32_t>(a[i / 32 * 32 + l]);
      want |= uint32_t{v > 50} << l;
      low = std::min(low, v);
    }
    EXPECT_EQ(ballot[i], want);
    EXPECT_EQ(any[i], 1u);
    EXPECT_EQ(static_cast<int32_t>(least[i]), low);
    EXPECT_EQ(here[i], i % 32 < 7 ? 0x7fu : 0u);
  }
}

TEST(PtxWarp, WhatIsRefused) {
  const std::vector<uint32_t> a(64, 1);
  const auto kind = [&](const std::string& body) {
    return fault_of([&] {
             compute<uint32_t>("mov.u32 %d, 0;\nmov.u32 %t0, %laneid;\nsetp.lt.u32 %p, %t0, 16;\n" + body, a);
           })
        .kind;
  };
  EXPECT_EQ(kind("@%p shfl.sync.bfly.b32 %d, %a, 1, 31, -1;"), FaultKind::warp) << "lanes that do not come";
  EXPECT_EQ(kind("shfl.sync.bfly.b32 %d, %a, 1, 31, 0xffff;"), FaultKind::warp) << "lanes that are not in their mask";
  EXPECT_EQ(kind("@%p shfl.sync.bfly.b32 %d, %a, 16, 31, 0xffff;"), FaultKind::warp) << "a lane that is not there";
  EXPECT_EQ(kind("@%p bar.warp.sync -1;"), FaultKind::warp);
}

// ---- matrix units: fragments are filled by the manual's table, the product by three loops ----

struct Shape {
  const char* name;
  uint32_t k, per_word;
};

// Element (row, column) of A that lane `lane` holds in part `i` of register `r`, as the manual writes a0, a1, ...
std::pair<uint32_t, uint32_t> place_a(const Shape& s, uint32_t lane, uint32_t r, uint32_t i) {
  return {lane / 4 + (r % 2 ? 8 : 0), lane % 4 * s.per_word + i + (r / 2) * 4 * s.per_word};
}
std::pair<uint32_t, uint32_t> place_b(const Shape& s, uint32_t lane, uint32_t r, uint32_t i) {
  return {lane % 4 * s.per_word + i + r * 4 * s.per_word, lane / 4};
}

template <class Encode>
void check_product(const Shape& s, bool integers, const Encode& encode) {
  std::mt19937 random(11);
  std::vector<double> a(16 * s.k), b(s.k * 8);
  std::vector<double> c(16 * 8);
  for (auto* v : {&a, &b, &c}) {
    for (double& x : *v)
      x = integers ? static_cast<int>(random() % 200) - 100 : (static_cast<int>(random() % 33) - 16) / 4.0;
  }
  const uint32_t words = s.k / (4 * s.per_word), total = 3 * words + 4;
  std::vector<uint32_t> in(32 * total), out(32 * 4);
  const uint32_t bits = 32 / s.per_word;
  const uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t* mine = in.data() + lane * total;
    for (uint32_t i = 0; i < s.per_word; ++i) {
      for (uint32_t r = 0; r < 2 * words; ++r) {
        const auto [row, column] = place_a(s, lane, r, i);
        mine[r] |= (encode(a[row * s.k + column]) & mask) << (i * bits);
      }
      for (uint32_t r = 0; r < words; ++r) {
        const auto [row, column] = place_b(s, lane, r, i);
        mine[2 * words + r] |= (encode(b[row * 8 + column]) & mask) << (i * bits);
      }
    }
    for (uint32_t r = 0; r < 4; ++r) {
      const double v = c[(lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2];
      mine[3 * words + r] =
          integers ? static_cast<uint32_t>(static_cast<int32_t>(v)) : std::bit_cast<uint32_t>(static_cast<float>(v));
    }
  }
  std::string body =
      ".reg .b64 %a, %b;\n.reg .b32 %r<20>, %d<4>, %i;\nld.param.u64 %a, [p0];\nld.param.u64 %b, [p1];\nmov.u32 %i, "
      "%tid.x;\nmad.wide.u32 %a, %i, " +
      std::to_string(4 * total) + ", %a;\nmad.wide.u32 %b, %i, 16, %b;\n";
  const auto list = [](uint32_t first, uint32_t count) {
    std::string text;
    for (uint32_t i = first; i < first + count; ++i) text += (text.empty() ? "%r" : ", %r") + std::to_string(i);
    return "{" + text + "}";
  };
  for (uint32_t r = 0; r < total; ++r)
    body += "ld.global.u32 %r" + std::to_string(r) + ", [%a+" + std::to_string(4 * r) + "];\n";
  body += std::string("mma.sync.aligned.") + s.name + " {%d0, %d1, %d2, %d3}, " + list(0, 2 * words) + ", " +
          list(2 * words, words) + ", " + list(3 * words, 4) + ";\nst.global.v4.u32 [%b], {%d0, %d1, %d2, %d3};\nret;";
  PtxRun(module_text(body, 2)).argument(in).argument(out).launch(1, 32);
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t column = 0; column < 8; ++column) {
      double want = c[row * 8 + column];
      for (uint32_t l = 0; l < s.k; ++l) want += a[row * s.k + l] * b[l * 8 + column];
      const uint32_t got = out[(row % 8 * 4 + column / 2) * 4 + row / 8 * 2 + column % 2];
      EXPECT_EQ(
          integers ? static_cast<double>(static_cast<int32_t>(got)) : static_cast<double>(std::bit_cast<float>(got)),
          want)
          << s.name << " " << row << " " << column;
    }
  }
}

TEST(PtxMatrix, Products) {
  const auto half = [](double v) { return F16::round(v); };
  const auto brain = [](double v) { return std::bit_cast<uint32_t>(static_cast<float>(v)) >> 16; };
  const auto single = [](double v) { return std::bit_cast<uint32_t>(static_cast<float>(v)); };
  const auto byte = [](double v) { return static_cast<uint32_t>(static_cast<int32_t>(v)) & 0xffu; };
  check_product({"m16n8k16.row.col.f32.f16.f16.f32", 16, 2}, false, half);
  check_product({"m16n8k8.row.col.f32.f16.f16.f32", 8, 2}, false, half);
  check_product({"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 2}, false, brain);
  check_product({"m16n8k8.row.col.f32.tf32.tf32.f32", 8, 1}, false, single);
  check_product({"m16n8k4.row.col.f32.tf32.tf32.f32", 4, 1}, false, single);
  check_product({"m16n8k32.row.col.s32.s8.s8.s32", 32, 4}, true, byte);
  check_product({"m16n8k16.row.col.s32.s8.s8.s32", 16, 4}, true, byte);
}

// Element (r, c) of matrix m is 1000 m + 10 r + c.
TEST(PtxMatrix, LoadsOfMatrices) {
  for (const bool transposed : {false, true}) {
    std::vector<uint16_t> in(256);
    for (uint32_t i = 0; i < 256; ++i) in[i] = static_cast<uint16_t>(1000 * (i / 64) + 10 * (i / 8 % 8) + i % 8);
    std::vector<uint32_t> out(128);
    const std::string body =
        ".reg .b64 %a, %b, %l, %m;\n.reg .b32 %r<8>, %i;\n.shared .align 16 .b8 s[512];\nld.param.u64 %a, "
        "[p0];\nld.param.u64 %b, [p1];\n"
        "mov.u32 %i, %tid.x;\nmad.wide.u32 %a, %i, 16, %a;\nmad.wide.u32 %b, %i, 16, %b;\nmov.u64 %m, s;\nmad.wide.u32 "
        "%l, %i, 16, %m;\n"
        "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%a];\nst.shared.v4.u32 [%l], {%r0, %r1, %r2, %r3};\nbar.sync 0;\n"
        "cvt.u32.u64 %r5, %l;\nldmatrix.sync.aligned.m8n8.x4" +
        std::string(transposed ? ".trans" : "") +
        ".shared.b16 {%r0, %r1, %r2, %r3}, [%r5];\nst.global.v4.u32 [%b], {%r0, %r1, %r2, %r3};\nret;";
    PtxRun(module_text(body, 2)).argument(in).argument(out).launch(1, 32);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t m = 0; m < 4; ++m) {
        const uint32_t r = lane / 4, c = lane % 4 * 2;
        const uint32_t low = transposed ? 10 * c + r : 10 * r + c,
                       high = transposed ? 10 * (c + 1) + r : 10 * r + c + 1;
        EXPECT_EQ(out[lane * 4 + m], (1000 * m + low) | (1000 * m + high) << 16);
      }
    }
  }
}

}  // namespace
}  // namespace heddle::ptx
