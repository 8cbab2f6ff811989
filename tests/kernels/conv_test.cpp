// conv.hk and conv_weight_grad.hk: schedules of every device, and what is picked here, against plain loops, at sizes
// that fit no tile, with strides, dilation, padding, groups, layouts and types.
#include "tests/kernels/conv_fixture.h"

namespace heddle::test {
namespace {

class ConvTest : public ConvFixture {};

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
