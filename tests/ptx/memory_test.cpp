// Loads, stores, control flow and calls, against what C++ does with the same memory; and what must be refused.
#include <numeric>

#include "tests/ptx/ptx_test.h"

namespace heddle::ptx {
namespace {

constexpr const char* prologue =
    ".reg .b64 %a, %b, %l<8>;\n.reg .b32 %r<16>;\n.reg .f32 %f<8>;\n.reg .b16 %h<4>;\n.reg .pred %p<4>;\n"
    "ld.param.u64 %a, [p0];\nld.param.u64 %b, [p1];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, "
    "%ntid.x;\n"
    "mad.lo.u32 %r3, %r1, %r2, %r0;\nmad.wide.u32 %l0, %r3, 4, %a;\nmad.wide.u32 %l1, %r3, 4, %b;\n";

std::string text(const std::string& body, const std::string& globals = "") {
  return module_text(prologue + body + "ret;", 2, globals);
}

struct Buffers {
  explicit Buffers(size_t n) : a(n), b(n) { std::iota(a.begin(), a.end(), 100u); }
  std::vector<uint32_t> a, b;
  void run(const std::string& body, uint32_t blocks, uint32_t lanes, const std::string& globals = "",
           uint32_t shared = 0) {
    PtxRun(text(body, globals)).argument(a).argument(b).launch(blocks, lanes, shared);
  }
};

TEST(PtxMemory, WidthsAndSigns) {
  Buffers m(64);
  for (size_t i = 0; i < 64; ++i) m.a[i] = 0x80ff8180u + static_cast<uint32_t>(i);
  const char* loads[] = {"ld.global.u8 %r4, [%l0+1];", "ld.global.s8 %r4, [%l0+1];", "ld.global.u16 %r4, [%l0+2];",
                         "ld.global.s16 %r4, [%l0+2];", "ld.global.nc.u32 %r4, [%l0];"};
  const uint32_t want[] = {0x81, 0xffffff81, 0x80ff, 0xffff80ff, 0x80ff8180};
  for (int i = 0; i < 5; ++i) {
    m.run(std::string(loads[i]) + "\nst.global.u32 [%l1], %r4;\n", 2, 32);
    EXPECT_EQ(m.b[0], want[i]) << loads[i];
  }
  m.b.assign(64, 0xffffffffu);
  m.run("ld.global.u32 %r4, [%l0];\nst.global.u8 [%l1+1], %r4;\n", 1, 64);
  EXPECT_EQ(m.b[3], 0xffff83ffu);
}

TEST(PtxMemory, Vectors) {
  Buffers m(128);
  m.run(
      "mad.wide.u32 %l2, %r3, 16, %a;\nmad.wide.u32 %l3, %r3, 16, %b;\nld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%l2];\n"
      "st.global.v2.u32 [%l3], {%r7, %r6};\nst.global.v2.u32 [%l3+8], {%r5, %r4};\n",
      1, 32);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(m.b[i], 100 + i / 4 * 4 + 3 - i % 4);
}

TEST(PtxMemory, SharedLocalConstantGeneric) {
  Buffers m(64);
  // Each lane passes its value through local memory, by a generic address, then to its neighbour in shared memory.
  m.run(
      ".local .align 8 .b8 frame[16];\n.shared .align 4 .b8 tile[256];\n"
      "mov.u64 %l2, frame;\ncvta.local.u64 %l3, %l2;\nld.global.u32 %r4, [%l0];\nst.u32 [%l3+8], %r4;\nld.local.u32 "
      "%r5, [%l2+8];\n"
      "mov.u64 %l4, tile;\nmad.wide.u32 %l5, %r0, 4, %l4;\nst.shared.u32 [%l5], %r5;\nbar.sync 0;\nxor.b32 %r6, %r0, "
      "1;\n"
      "mad.wide.u32 %l5, %r6, 4, %l4;\ncvta.shared.u64 %l6, %l5;\nld.u32 %r7, [%l6];\n"
      "mov.u64 %l7, table;\nld.const.u32 %r8, [%l7+4];\nadd.u32 %r7, %r7, %r8;\nst.global.u32 [%l1], %r7;\n",
      1, 64, ".const .align 4 .b32 table[2] = {7, 1000};\n");
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(m.b[i], 1100 + (i ^ 1));
}

TEST(PtxMemory, DynamicSharedMemory) {
  Buffers m(32);
  const char* body =
      "mov.u64 %l2, wide;\nmad.wide.u32 %l2, %r0, 4, %l2;\nst.shared.u32 [%l2+64], %r0;\nld.shared.u32 %r4, "
      "[%l2+64];\nst.global.u32 [%l1], %r4;\n";
  const char* globals = ".extern .shared .align 16 .b8 wide[];\n.shared .align 4 .b8 first[20];\n";
  m.run(body, 1, 32, globals, 192);
  EXPECT_EQ(m.b[31], 31u);
  EXPECT_EQ(fault_of([&] { m.run(body, 1, 32, globals, 191); }).kind, FaultKind::bounds);
}

// ---- control ----

// The number of steps of Collatz' sequence: lanes go apart and meet again.
TEST(PtxControl, LoopsOfDifferentLengths) {
  Buffers m(256);
  m.run(
      "ld.global.u32 %r4, [%l0];\nmov.u32 %r5, 0;\n"
      "LOOP:\nsetp.eq.u32 %p0, %r4, 1;\n@%p0 bra END;\nand.b32 %r6, %r4, 1;\nsetp.eq.u32 %p1, %r6, 0;\n@%p1 bra EVEN;\n"
      "mad.lo.u32 %r4, %r4, 3, 1;\nbra NEXT;\nEVEN:\nshr.u32 %r4, %r4, 1;\nNEXT:\nadd.u32 %r5, %r5, 1;\nbra LOOP;\n"
      "END:\nst.global.u32 [%l1], %r5;\n",
      2, 128);
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t x = 100 + i, steps = 0;
    for (; x != 1; ++steps) x = x % 2 ? 3 * x + 1 : x / 2;
    EXPECT_EQ(m.b[i], steps);
  }
}

TEST(PtxControl, PredicatesAndTables) {
  Buffers m(64);
  m.run(
      "and.b32 %r4, %r0, 3;\nsetp.lt.u32 %p0, %r0, 60;\n@!%p0 exit;\nTABLE: .branchtargets A, B, C, A;\nbrx.idx %r4, "
      "TABLE;\n"
      "A:\nmov.u32 %r5, 11;\nbra END;\nB:\nmov.u32 %r5, 22;\nbra END;\nC:\nmov.u32 %r5, 33;\n"
      "END:\nsetp.gt.u32 %p1, %r0, 40;\n@%p1 add.u32 %r5, %r5, 100;\nst.global.u32 [%l1], %r5;\n",
      1, 64);
  const uint32_t by[] = {11, 22, 33, 11};
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(m.b[i], i >= 60 ? 0 : by[i % 4] + (i > 40 ? 100 : 0));
}

TEST(PtxControl, CallsOfFunctions) {
  const char* functions =
      ".func (.param .b32 result) twice(.param .b32 x);\n"
      ".func (.param .b32 result) more(.param .b32 x, .param .align 8 .b8 y[8])\n{\n.reg .b32 %r<4>;\nld.param.u32 "
      "%r0, [x];\nld.param.u32 %r1, [y+4];\n"
      "{\n.param .b32 in;\n.param .b32 out;\nst.param.b32 [in+0], %r0;\ncall.uni (out), twice, (in);\nld.param.b32 "
      "%r2, [out+0];\n}\n"
      "add.u32 %r3, %r1, %r2;\nst.param.b32 [result+0], %r3;\nret;\n}\n"
      ".func (.param .b32 result) twice(.param .b32 x)\n{\n.reg .b32 %r<2>;\nld.param.u32 %r0, [x];\nadd.u32 %r0, %r0, "
      "%r0;\nst.param.b32 [result+0], %r0;\nret;\n}\n";
  Buffers m(64);
  // Odd lanes call, even ones do not.
  m.run(
      "ld.global.u32 %r4, [%l0];\nand.b32 %r6, %r0, 1;\nsetp.eq.u32 %p0, %r6, 0;\n@%p0 bra END;\n"
      "{\n.param .b32 one;\n.param .align 8 .b8 two[8];\n.param .b32 back;\nst.param.b32 [one+0], %r4;\nst.param.b32 "
      "[two+4], %r0;\n"
      "call.uni (back), more, (one, two);\nld.param.b32 %r4, [back+0];\n}\nEND:\nst.global.u32 [%l1], %r4;\n",
      1, 64, functions);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(m.b[i], i % 2 ? 2 * (100 + i) + i : 100 + i);
}

TEST(PtxControl, AnEndlessLoopEnds) {
  Buffers m(1);
  const Fault f = fault_of([&] { m.run("A:\nadd.u32 %r4, %r4, 1;\nbra A;\n", 1, 1); });
  EXPECT_NE(std::string(f.what()).find("instructions"), std::string::npos);
}

// ---- atomics ----

TEST(PtxAtomics, AllBlocksAndLanesCount) {
  Buffers m(512);
  m.run(
      "atom.global.add.u32 %r4, [%b], 3;\nred.global.max.u32 [%b+4], %r3;\natom.global.cas.b32 %r5, [%b+8], 0, %r3;\n"
      "red.global.add.f32 [%b+12], 0f3E800000;\natom.global.inc.u32 %r6, [%b+16], 6;\n",
      16, 32);
  EXPECT_EQ(m.b[0], 1536u);
  EXPECT_EQ(m.b[1], 511u);
  EXPECT_EQ(std::bit_cast<float>(m.b[3]), 128.0f);
  EXPECT_EQ(m.b[4], 512u % 7);
}

TEST(PtxAtomics, InSharedMemoryTheyDoNotRace) {
  Buffers m(64);
  m.run(
      ".shared .align 4 .b8 sum[4];\nmov.u64 %l2, sum;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 st.shared.u32 [%l2], "
      "0;\nbar.sync 0;\n"
      "atom.shared.add.u32 %r4, [%l2], %r0;\nbar.sync 0;\nld.shared.u32 %r5, [%l2];\nst.global.u32 [%l1], %r5;\n",
      1, 64);
  for (uint32_t v : m.b) EXPECT_EQ(v, 2016u);
}

// ---- cp.async ----

TEST(PtxAsync, ArrivesWithItsGroup) {
  Buffers m(64);
  const char* body =
      ".shared .align 16 .b8 tile[1024];\nmov.u64 %l2, tile;\ncvt.u32.u64 %r4, %l2;\nmad.lo.u32 %r4, %r0, 4, %r4;\n"
      "mov.u32 %r6, 0;\nst.shared.u32 [%r4+256], %r0;\n"
      "cp.async.ca.shared.global [%r4], [%l0], 4;\ncp.async.commit_group;\ncp.async.ca.shared.global [%r4+512], [%l0], "
      "4, %r6;\ncp.async.commit_group;\n"
      "cp.async.wait_group 1;\nld.shared.u32 %r5, [%r4];\ncp.async.wait_group 0;\nld.shared.u32 %r7, "
      "[%r4+512];\nadd.u32 %r5, %r5, %r7;\nst.global.u32 [%l1], %r5;\n";
  m.run(body, 1, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(m.b[i], 100 + i);
  std::string late = body;
  late.replace(late.find("wait_group 1"), 12, "wait_group 2");
  EXPECT_EQ(fault_of([&] { m.run(late, 1, 64); }).kind, FaultKind::in_flight);
}

// ---- refusals ----

TEST(PtxRefuses, WhatItDoesNotKnowWithItsLine) {
  const auto error = [](const std::string& line) { return ptx_error_of([&] { PtxRun run(text(line + "\n")); }); };
  EXPECT_EQ(error("frobnicate.b32 %r4, %r5;"),
            "[ptx] unknown opcode 'frobnicate.b32' (line 19: frobnicate.b32 %r4, %r5;)");
  EXPECT_EQ(error("add.moist.u32 %r4, %r5, %r6;"),
            "[ptx] unknown modifier '.moist' of 'add.moist.u32' (line 19: add.moist.u32 %r4, %r5, %r6;)");
  EXPECT_NE(error("add.u32 %r4, %l5, %r6;").find("has not the 4 bytes"), std::string::npos);
  EXPECT_NE(error("add.u32 %r4, %r5;").find("operands"), std::string::npos);
  EXPECT_NE(error("mov.u32 %r4, %smid;").find("unknown special register '%smid'"), std::string::npos);
  EXPECT_NE(error(".surprise 4;").find("unknown space '.surprise'"), std::string::npos);
  EXPECT_NE(error("bra NOWHERE;").find("NOWHERE"), std::string::npos);
  EXPECT_NE(error("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f0}, {%r4}, {%r5}, {%f0};").find("mma"),
            std::string::npos);
  EXPECT_NE(error("bar.sync 1;").find("number 0"), std::string::npos);
  EXPECT_NE(ptx_error_of([] { parse(".version 8.8\n.wrong 3\n"); }).find("unknown directive '.wrong' (line 2)"),
            std::string::npos);
}

// ---- faults ----

TEST(PtxFaults, GlobalMemory) {
  Buffers m(64);
  const Fault beyond = fault_of([&] { m.run("ld.global.u32 %r4, [%l0+4];\nst.global.u32 [%l1], %r4;\n", 1, 64); });
  EXPECT_EQ(beyond.kind, FaultKind::bounds);
  const std::string said = beyond.what();
  for (const char* part : {"kernel k", "block 0,0,0", "lane 63", "PTX line 19", "'ld.global.u32 %r4, [%l0+4];'"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_EQ(fault_of([&] { m.run("ld.global.u64 %l2, [%l0+252];\n", 1, 1); }).kind, FaultKind::bounds)
      << "across the end";
  EXPECT_EQ(fault_of([&] { m.run("ld.global.u32 %r4, [%l0+-4];\n", 1, 1); }).kind, FaultKind::bounds);
  EXPECT_EQ(fault_of([&] { m.run("st.global.u32 [%l0+2], %r4;\n", 1, 1); }).kind, FaultKind::misaligned);
  EXPECT_EQ(fault_of([&] { m.run("ld.global.v2.u32 {%r4, %r5}, [%l0];\n", 1, 2); }).kind, FaultKind::misaligned);
}

// Blocks are not ordered, whichever of them runs first.
TEST(PtxFaults, BlocksAtTheSameBytes) {
  Buffers m(64);
  const auto kind = [&](const std::string& body) { return fault_of([&] { m.run(body, 2, 32); }).kind; };
  EXPECT_EQ(kind("st.global.u32 [%a], %r3;\n"), FaultKind::race) << "different values at one place";
  EXPECT_EQ(kind("xor.b32 %r4, %r3, 32;\nmad.wide.u32 %l2, %r4, 4, %b;\nld.global.u32 %r5, [%l2];\nst.global.u32 "
                 "[%l1], %r3;\n"),
            FaultKind::race)
      << "read, then written";
  EXPECT_EQ(kind("st.global.u32 [%l1], %r3;\nxor.b32 %r4, %r3, 32;\nmad.wide.u32 %l2, %r4, 4, %b;\nld.global.u8 "
                 "%r5, [%l2+3];\n"),
            FaultKind::race)
      << "written, then read";
  EXPECT_EQ(kind("add.u32 %r4, %r3, 1000;\nst.global.u32 [%l1], %r4;\nld.global.nc.u32 %r5, [%l1];\n"), FaultKind::race)
      << "by a cache that sees no writes";
  EXPECT_EQ(kind("red.global.add.u32 [%a], 1;\nst.global.u32 [%a], %r3;\n"), FaultKind::race)
      << "one of them atomically";
  EXPECT_EQ(kind("st.global.u8 [%b], %r3;\nst.global.u32 [%b], %r3;\n"), FaultKind::race) << "a word over bytes";
  EXPECT_EQ(kind("st.global.u32 [%l1], %r3;\nxor.b32 %r4, %r3, 32;\nmad.wide.u32 %l2, %r4, 4, %b;\nst.global.u8 "
                 "[%l2+1], 77;\n"),
            FaultKind::race)
      << "a byte of another block's word";
  const Fault f = fault_of([&] { m.run("st.global.u32 [%b+8], %r3;\n", 2, 1); });
  EXPECT_NE(std::string(f.what()).find("(8 behind parameter 1) of global memory, which block "), std::string::npos)
      << f.what();
}

TEST(PtxFaults, BlocksThatDoNotRace) {
  Buffers m(64);
  m.run("red.global.add.u32 [%a], 1;\n", 2, 32);
  EXPECT_EQ(m.a[0], 164u) << "atomic operations";
  // At one moment too, so many times: each launch's value is another than the last one's.
  for (uint32_t i = 0; i < 400; ++i) {
    const uint32_t value = i % 2 == 0 ? 7 : 9;
    m.run("st.global.u32 [%a], " + std::to_string(value) + ";\n", 2, 32);
    ASSERT_EQ(m.a[0], value) << "the same value of all blocks";
  }
  // Bytes of one word by two blocks; what a launch wrote, another block of the next one reads.
  PtxRun run(
      text("cvt.u64.u32 %l2, %r3;\nadd.u64 %l2, %b, %l2;\nld.global.u32 %r5, [%l0];\nadd.u32 %r4, %r3, "
           "1;\nst.global.u8 [%l2], %r4;\nxor.b32 %r4, %r3, 63;\nmad.wide.u32 %l3, %r3, 4, %a;\n"
           "st.global.u32 [%l3], %r4;\n"));
  run.argument(m.a).argument(m.b);
  for (int i = 0; i < 3; ++i) run.launch(32, 2);
  EXPECT_EQ(m.b[0], 0x04030201u);
}

// The list of a barrier's lanes outlives the predicate that chose all of them.
TEST(PtxControl, GoOnWithAllLanesBehindABarrierWithAPredicate) {
  Buffers m(64);
  m.run(
      "setp.lt.u32 %p0, %r0, 64;\nsetp.ge.u32 %p1, %r0, 32;\nmov.u32 %r4, 1;\n@%p0 bar.sync 0;\n"
      "@%p1 mov.u32 %r4, 2;\nst.global.u32 [%l1], %r4;\n",
      1, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(m.b[i], i < 32 ? 1u : 2u) << i;
}

constexpr const char* tile = ".shared .align 16 .b8 tile[256];\nmov.u64 %l2, tile;\nmad.wide.u32 %l3, %r0, 4, %l2;\n";

TEST(PtxFaults, SharedMemory) {
  Buffers m(64);
  const auto kind = [&](const std::string& body) { return fault_of([&] { m.run(tile + body, 1, 64); }).kind; };
  EXPECT_EQ(kind("ld.shared.u32 %r4, [%l3];\n"), FaultKind::uninitialised);
  EXPECT_EQ(kind("st.shared.u32 [%l3+4], %r0;\n"), FaultKind::bounds);
  EXPECT_EQ(kind("st.shared.u32 [%l3+1], %r0;\n"), FaultKind::misaligned);
  EXPECT_EQ(kind("st.shared.u16 [%l3], %h0;\nbar.sync 0;\nld.shared.u32 %r4, [%l3];\n"), FaultKind::uninitialised)
      << "half of it";
  EXPECT_EQ(kind("xor.b32 %r4, %r0, 1;\nmad.wide.u32 %l4, %r4, 4, %l2;\nst.shared.u32 [%l3], %r0;\nld.shared.u32 %r5, "
                 "[%l4];\n"),
            FaultKind::race);
  EXPECT_EQ(kind("st.shared.u32 [%l2], %r0;\n"), FaultKind::race) << "different values at one place";
  EXPECT_EQ(kind("st.shared.u32 [%l3], %r0;\nbar.sync 0;\nld.shared.u32 %r4, [%l2];\nst.shared.u32 [%l3], "
                 "%r0;\nadd.u32 %r4, %r0, 1;\nst.shared.u32 [%l3], %r4;\n"),
            FaultKind::race)
      << "read, then written";
}

TEST(PtxFaults, WhatIsNoRace) {
  Buffers m(64);
  m.run(std::string(tile) +
            "st.shared.u32 [%l2], 7;\nbar.sync 0;\nld.shared.u32 %r4, [%l2];\nst.global.u32 [%l1], %r4;\n",
        1, 64);
  EXPECT_EQ(m.b[63], 7u) << "the same value of all lanes";
  // Halves of a word by two lanes, and an exchange within a warp.
  m.run(std::string(tile) +
            "mad.wide.u32 %l4, %r0, 2, %l2;\ncvt.u16.u32 %h0, %r0;\nst.shared.u16 [%l4], %h0;\nbar.warp.sync -1;\n"
            "xor.b32 %r4, %r0, 1;\nmad.wide.u32 %l5, %r4, 2, %l2;\nld.shared.u16 %h1, [%l5];\ncvt.u32.u16 %r5, "
            "%h1;\nst.global.u32 [%l1], %r5;\n",
        1, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(m.b[i], i ^ 1);
  // A barrier of a warp does not order another warp.
  EXPECT_EQ(fault_of([&] {
              m.run(std::string(tile) +
                        "st.shared.u32 [%l3], %r0;\nbar.warp.sync -1;\nxor.b32 %r4, %r0, 32;\nmad.wide.u32 %l5, %r4, "
                        "4, %l2;\nld.shared.u32 %r5, [%l5];\n",
                    1, 64);
            }).kind,
            FaultKind::race);
}

TEST(PtxFaults, Barriers) {
  Buffers m(64);
  const auto kind = [&](const std::string& body) { return fault_of([&] { m.run(body, 1, 64); }).kind; };
  EXPECT_EQ(kind("setp.lt.u32 %p0, %r0, 32;\n@%p0 bra A;\nbar.sync 0;\nA:\nadd.u32 %r4, %r0, 1;\n"),
            FaultKind::barrier);
  EXPECT_EQ(
      kind("setp.lt.u32 %p0, %r0, 32;\n@%p0 bra A;\nbar.sync 0;\nbra B;\nA:\nbar.sync 0;\nB:\nadd.u32 %r4, %r0, 1;\n"),
      FaultKind::barrier);
  EXPECT_EQ(kind("setp.lt.u32 %p0, %r0, 32;\n@%p0 bar.sync 0;\n"), FaultKind::barrier);
  // Lanes that come around by another way meet at the barrier.
  m.run(
      "setp.lt.u32 %p0, %r0, 5;\n@%p0 bra LATER;\nHERE:\nbar.sync 0;\nbra END;\nLATER:\nbra HERE;\nEND:\nst.global.u32 "
      "[%l1], 1;\n",
      1, 64);
  EXPECT_EQ(m.b[0] + m.b[63], 2u);
}

TEST(PtxFaults, NameTheLineOfTheKernelsText) {
  Buffers m(4);
  const std::string files = ".file 1 \"matmul.hk\"\n.file 2 \"prelude.cu\"\n";
  const Fault f = fault_of(
      [&] { m.run(".loc 2 30 5, function_name L, inlined_at 1 12 3\nld.global.u32 %r4, [%l0+16];\n", 1, 1, files); });
  EXPECT_NE(std::string(f.what()).find("prelude.cu:30 inlined at matmul.hk:12"), std::string::npos) << f.what();
}

}  // namespace
}  // namespace heddle::ptx
