// wgmma against three loops: operands are put into shared memory by the manual's layouts, along k and turned.
#include <random>

#include "tests/ptx/formats.h"
#include "tests/ptx/ptx_test.h"

namespace heddle::ptx {
namespace {

constexpr uint32_t columns = 128, inner = 16;
// A lies at 0 and B at 4 KiB or later: both begin a pattern of 1,024 bytes.
constexpr uint32_t place_of_b = 8192, words = 8192;

// The word of element (i, k) by the manual's figures: atoms of 8 rows of 128 bytes, in which the piece of 16 bytes with
// number c of row r stands at c xor r.
uint32_t byte_of(uint32_t i, uint32_t k, bool turned, uint32_t leading, uint32_t stride) {
  const uint32_t row = turned ? k % 8 : i % 8, along = turned ? i % 64 : k;
  const uint32_t atom = turned ? i / 64 * leading + k / 8 * stride : i / 8 * stride;
  return atom + row * 128 + ((along / 8) ^ row) * 16 + along % 8 * 2;
}

struct Layout {
  bool turned;
  uint32_t leading, stride;
  uint64_t descriptor(uint32_t start) const {
    return uint64_t{start >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 | 1ull << 62;
  }
};

std::string registers() {
  std::string text = "{";
  for (uint32_t i = 0; i < columns / 2; ++i) text += std::string(i ? ", " : "") + "%f" + std::to_string(i);
  return text + "}";
}

// Lane i copies the words i, i + 128, ... of the image; the product is added twice to sums of 1, or once to none.
std::string body(const Layout& a, const Layout& b, bool adds) {
  std::string text =
      ".reg .b64 %l<8>;\n.reg .b32 %r<8>;\n.reg .f32 %f<" + std::to_string(columns / 2) +
      ">;\n.reg .pred %p, %q;\n.shared .align 1024 .b8 tile[" + std::to_string(4 * words) +
      "];\nld.param.u64 %l0, [p0];\nld.param.u64 %l1, [p1];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %l2, %r0, 4;\n"
      "add.u64 %l0, %l0, %l2;\nmov.u64 %l3, tile;\nadd.u64 %l2, %l3, %l2;\nmov.u32 %r1, 0;\n"
      "COPY:\nld.global.u32 %r2, [%l0];\nst.shared.u32 [%l2], %r2;\nadd.u64 %l0, %l0, 512;\nadd.u64 %l2, %l2, 512;\n"
      "add.u32 %r1, %r1, 128;\nsetp.lt.u32 %p, %r1, " +
      std::to_string(words) + ";\n@%p bra COPY;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n";
  for (uint32_t i = 0; i < columns / 2; ++i) text += "mov.f32 %f" + std::to_string(i) + ", 0f3F800000;\n";
  const std::string multiply = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32.f16.f16 " +
                               registers() + ", %l4, %l5, %q, 1, 1, " + (a.turned ? "1" : "0") + ", " +
                               (b.turned ? "1" : "0") + ";\n";
  text += "mov.u64 %l4, " + std::to_string(a.descriptor(0)) + ";\nmov.u64 %l5, " +
          std::to_string(b.descriptor(place_of_b)) + ";\nsetp.eq.u32 %q, 0, " + (adds ? "0" : "1") +
          ";\nwgmma.fence.sync.aligned;\n" + (adds ? multiply : "") + multiply +
          "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nmad.wide.u32 %l1, %r0, " +
          std::to_string(columns / 2 * 4) + ", %l1;\n";
  for (uint32_t i = 0; i < columns / 2; ++i)
    text += "st.global.f32 [%l1+" + std::to_string(4 * i) + "], %f" + std::to_string(i) + ";\n";
  return text + "END:\nret;";
}

void check(const Layout& a, const Layout& b, bool adds) {
  std::mt19937 random(5);
  std::vector<double> left(64 * inner), right(columns * inner);
  for (auto* values : {&left, &right}) {
    for (double& x : *values) x = (static_cast<int>(random() % 33) - 16) / 4.0;
  }
  std::vector<uint16_t> image(2 * words, 0x7e00);  // NaN where no element lies
  for (uint32_t k = 0; k < inner; ++k) {
    for (uint32_t i = 0; i < 64; ++i)
      image[byte_of(i, k, a.turned, a.leading, a.stride) / 2] = static_cast<uint16_t>(F16::round(left[i * inner + k]));
    for (uint32_t j = 0; j < columns; ++j)
      image[(place_of_b + byte_of(j, k, b.turned, b.leading, b.stride)) / 2] =
          static_cast<uint16_t>(F16::round(right[j * inner + k]));
  }
  std::vector<float> sums(128 * columns / 2);
  PtxRun run(module_text(body(a, b, adds), 2));
  run.argument(image).argument(sums).launch(1, 128);
  for (uint32_t i = 0; i < 64; ++i) {
    for (uint32_t j = 0; j < columns; ++j) {
      double want = 0;
      for (uint32_t k = 0; k < inner; ++k) want += left[i * inner + k] * right[j * inner + k];
      if (adds) want = 1 + 2 * want;
      // The manual's figure of the result: rows of eight by warps, columns by fours of lanes.
      const uint32_t lane = i / 16 * 32 + i % 8 * 4 + j % 8 / 2, r = j / 8 * 4 + i % 16 / 8 * 2 + j % 2;
      ASSERT_EQ(sums[lane * columns / 2 + r], static_cast<float>(want)) << i << ", " << j;
    }
  }
}

TEST(PtxWarpgroup, ReadsBothLayouts) {
  const Layout along{false, 16, 1024}, turned{true, 4096, 1024}, turned_far{true, 2048, 4096};
  for (const bool adds : {true, false}) {
    check(along, along, adds);
    check(turned, turned, adds);
  }
  check(along, turned_far, true);
  check(turned, along, false);
}

TEST(PtxWarpgroup, WhatIsRefused) {
  const Layout along{false, 16, 1024};
  const auto kind = [&](const std::string& find, const std::string& replace) {
    std::string text = body(along, along, true);
    const size_t at = text.rfind(find);
    EXPECT_NE(at, text.npos) << find;
    text.replace(at, find.size(), replace);
    return fault_of([&] {
             std::vector<uint16_t> image(2 * words);
             std::vector<float> sums(128 * columns / 2);
             PtxRun run(module_text(text, 2));
             run.argument(image).argument(sums).launch(1, 128);
           })
        .kind;
  };
  EXPECT_EQ(kind("fence.proxy.async.shared::cta;\n", ""), FaultKind::not_shown);
  EXPECT_EQ(kind("bar.sync 0;\n", ""), FaultKind::race);
  EXPECT_EQ(kind("wgmma.fence.sync.aligned;\n", ""), FaultKind::in_flight);
  EXPECT_EQ(kind("wgmma.wait_group.sync.aligned 0;\n", "bar.sync 0;\nst.shared.u32 [tile], %r0;\n"),
            FaultKind::in_flight)
      << "a write of what is read";
  EXPECT_EQ(kind("wgmma.fence.sync.aligned;\n", "setp.lt.u32 %p, %r0, 32;\n@%p bra END;\nwgmma.fence.sync.aligned;\n"),
            FaultKind::warp)
      << "a warp that does not come";
}

}  // namespace
}  // namespace heddle::ptx
