// Schedules of conv.hk and conv_weight_grad.hk that are picked on CPUs, against plain loops; devices that never pick
// one run a case of it.
#include "tests/kernels/conv_fixture.h"

namespace heddle::test {
namespace {

class ConvOfCpus : public ConvFixture {};

TEST_P(ConvOfCpus, Packed) {
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

// Few channels of src on a CPU: as they are chosen, in several passes over a kernel with a stride and over more columns
// than are copied at a time, of operands that lie otherwise and in parts.
TEST_P(ConvOfCpus, WeightGradientsOfFewChannels) {
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

TEST_P(ConvOfCpus, Winograd) {
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
TEST_P(ConvOfCpus, Pointwise) {
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

// Weights that are copied: channels that fill no block of dst, and no run of src, the last row of the last group.
TEST_P(ConvOfCpus, PointwiseOfTurnedWeights) {
  if (!on_opencl()) return;  // no other device turns input gradients around
  Options o;
  o.turned = true;
  for (const int64_t channels : {3, 20, 68}) {
    const Case shape{"turned",  3,         2,         2 * channels, 74,       {1, 5, 19},
                     {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0},    {0, 0, 0}};
    const auto panels = [](int64_t mr, int64_t run) {
      return Bindings{{"SCHEDULE", 6}, {"VW", 8}, {"MR", mr}, {"NV", 1},  {"QT", 2},
                      {"QH", 2},       {"NI", 2}, {"NO", 2},  {"CB", run}};
    };
    check(shape, Kind::forward, panels(1, 512), o);
    check(shape, Kind::forward, panels(6, 16), o);
    check(shape, Kind::forward, panels(10, 512), o);
    check(shape, Kind::forward, {}, o);
  }
  o.a = o.b = DType::bf16;
  check({"half", 1, 1, 20, 37, {1, 5, 19}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}, Kind::forward, {},
        o);
}

// Planes of several pieces, of less than a vector, and that end amid one; blocks of channels that nothing fills; parts.
TEST_P(ConvOfCpus, WeightGradientsOfPlanes) {
  if (!on_opencl()) return;  // no other device chooses it
  const auto planes_of = [](const Extent3& size) {
    return Case{"planes", 3, 2, 14, 26, size, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}};
  };
  const auto dots = [](int64_t vw, int64_t mr, int64_t nv) {
    return Bindings{{"SCHEDULE", 7}, {"VW", vw}, {"MR", mr}, {"NV", nv}, {"NB", 2}, {"CB", 4}, {"QW", 4}};
  };
  for (const Extent3& size : {Extent3{1, 1, 5}, Extent3{1, 7, 19}, Extent3{2, 9, 11}, Extent3{1, 16, 16}}) {
    check(planes_of(size), Kind::weight_grad, dots(width(), 6, 4));
    check(planes_of(size), Kind::weight_grad, dots(8, 4, 3));
  }
  for (const int64_t parts : {2, 5, 33}) {
    Options o;
    o.parts = parts;
    check(planes_of({1, 7, 19}), Kind::weight_grad, dots(8, 1, 1), o);
    check(planes_of({1, 30, 29}), Kind::weight_grad, {}, o);
  }
  Options o;
  o.layout.offset = 3;
  o.a = DType::f16;
  o.b = DType::bf16;
  check(planes_of({1, 30, 29}), Kind::weight_grad, {}, o);
  o.layout = Layout{true, 3, 1};  // pixels do not lie side by side
  check(planes_of({1, 30, 29}), Kind::weight_grad, {}, o);
}

// Channels of src of a group: as many as are given, and no more than there are.
TEST_P(ConvOfCpus, PackedWeightGradientsOfEveryWidth) {
  if (!on_opencl()) return;
  for (const int64_t channels : {5, 8, 24, 33, 100}) {
    for (const int64_t kernel : {1, 3}) {
      const Case c{"widths",  2,         1,         channels, 7, {1, 6, 11}, {1, kernel, kernel},
                   {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}};
      for (const int64_t cb : {16, 96}) {
        check(c, Kind::weight_grad,
              {{"SCHEDULE", 2}, {"VW", 8}, {"MR", 3}, {"NV", 2}, {"NB", 2}, {"CB", cb}, {"QH", 4}, {"QW", 8}});
      }
    }
  }
}

TEST_P(ConvOfCpus, PointwiseOfManyChannels) {
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
TEST_P(ConvOfCpus, PanelsOfPixels) {
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
TEST_P(ConvOfCpus, FewPixels) {
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
TEST_P(ConvOfCpus, Strips) {
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
TEST_P(ConvOfCpus, PlanesOfOneChannel) {
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
TEST_P(ConvOfCpus, PlanesInPlace) {
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
TEST_P(ConvOfCpus, InfinityBesideRows) {
  Options o;
  o.infinite_src = true;
  for (const Case& c : {cases[0], cases[1], cases[3], cases[4]})
    check(c, Kind::weight_grad, rows(Kind::weight_grad), o);
}

HEDDLE_ON_DEVICES(ConvOfCpus);

}  // namespace
}  // namespace heddle::test
