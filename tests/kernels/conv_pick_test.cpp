// Which schedules and parts convolutions get.
#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/core/tiles/conv_tiles.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/kernels/hopper.h"
#include "tests/kernels/kernel_test.h"

namespace heddle::test {
namespace {

using Kind = ConvProblem::Kind;

// On NVIDIA's, sums in parts make enough tiles of 64 x 64 for the 132 units of an H200.
TEST(PickConv, FillsAGpu) {
  const Caps caps = hopper();
  const TuningOff off;
  struct Picked {
    int64_t channels, side, parts, weight_parts;
  };
  for (const auto& [channels, side, parts, weight_parts] :
       {Picked{64, 32, 1, 26}, Picked{128, 16, 2, 7}, Picked{256, 8, 4, 2}, Picked{512, 4, 8, 1}}) {
    ConvProblem p;
    p.N = 16;
    p.CG = p.OG = channels;
    p.in = p.out = {1, side, side};
    p.kernel = {1, 3, 3};
    p.pad = {0, 1, 1};
    for (const Kind kind : {Kind::forward, Kind::input_grad, Kind::weight_grad}) {
      const bool weights = kind == Kind::weight_grad;
      p.kind = kind;
      p.parts = 1;
      p.parts = pick_conv_parts(caps, p);
      EXPECT_EQ(p.parts, weights ? weight_parts : parts) << channels;
      const Bindings picked = weights ? pick_conv_weight_grad(caps, p) : pick_conv(caps, p);
      EXPECT_EQ(picked.at("SCHEDULE"), 1);
      EXPECT_EQ(picked.at("TM") * picked.at("TN"), 64 * 64) << channels;
      EXPECT_EQ(KernelFile::builtin(weights ? "conv_weight_grad" : "conv").refusal(picked), "");
    }
    ConvProblem elsewhere = p;
    elsewhere.kind = Kind::forward;
    Caps cpu = caps;
    cpu.device_class = DeviceClass::cpu;
    EXPECT_EQ(pick_conv_parts(cpu, elsewhere), 1);
  }
}

// Winograd on a CPU driver of OpenCL for 3 x 3 kernels without a stride and enough channels, if it is allowed.
TEST(PickConv, TakesWinograd) {
  Caps caps;
  caps.device_class = DeviceClass::cpu;
  caps.target = Target::opencl;
  caps.compute_units = 2;
  const auto schedule = [&](Kind kind, const ConvProblem& p) {
    ConvProblem q = p;
    q.kind = kind;
    return (kind == Kind::weight_grad ? pick_conv_weight_grad(caps, q) : pick_conv(caps, q)).at("SCHEDULE");
  };
  ConvProblem p;
  p.N = 4;
  p.CG = p.OG = 64;
  p.in = p.out = {1, 12, 13};
  p.kernel = {1, 3, 3};
  p.pad = {0, 1, 1};
  for (const Kind kind : {Kind::forward, Kind::input_grad, Kind::weight_grad}) {
    EXPECT_EQ(schedule(kind, p), 5);
    ConvProblem other = p;
    other.winograd = false;
    EXPECT_EQ(schedule(kind, other), 2);
    other = p;
    other.stride = {1, 2, 1};
    EXPECT_EQ(schedule(kind, other), 2);
    other = p;
    other.x = DType::f64;
    EXPECT_EQ(schedule(kind, other), 0);
    other = p;
    other.N = 1;
    other.in = other.out = {1, 2, 2};
    EXPECT_EQ(schedule(kind, other), 2) << "too few tiles for the transforms";
  }
}

// An entry of the tuner for planes without gaps is not taken where there are gaps.
TEST(PickConv, LeavesEntriesThatAProblemDoesNotAllow) {
  const ScopedTuning entry({"conv_weight_grad", "", {}}, {{"SCHEDULE", 7}, {"VW", 8}});
  Caps caps;
  caps.device_class = DeviceClass::cpu;
  caps.target = Target::opencl;
  caps.compute_units = 2;
  ConvProblem p;
  p.kind = Kind::weight_grad;
  p.CG = p.OG = 32;
  p.in = p.out = {1, 14, 14};
  p.x_w1 = p.g_w1 = p.flat = true;
  EXPECT_EQ(pick_conv_weight_grad(caps, p).at("SCHEDULE"), 7);
  p.flat = false;
  EXPECT_EQ(pick_conv_weight_grad(caps, p).at("SCHEDULE"), 2);
}

// Whatever a device looks like, the choice is one that the file accepts.
TEST(PickConv, IsAlwaysValid) {
  for (const DeviceClass c : {DeviceClass::cpu, DeviceClass::discrete_gpu}) {
    for (const Target target : {Target::glsl, Target::opencl, Target::cuda}) {
      for (const int64_t channels : {1, 3, 64, 512}) {
        for (const int64_t size : {1, 7, 56, 300, 20000}) {
          for (const int64_t kernel : {1, 3, 11, 40}) {
            for (const int64_t stride : {1, 2, 5}) {
              for (const Kind kind : {Kind::forward, Kind::input_grad, Kind::weight_grad}) {
                Caps caps;
                caps.device_class = c;
                caps.target = target;
                caps.compute_units = 8;
                caps.max_group_lanes = 256;
                ConvProblem p;
                p.kind = kind;
                p.N = 8;
                p.CG = channels;
                p.OG = channels == 512 ? 1 : 2 * channels;
                p.in = p.out = {1, std::min<int64_t>(size, 1000), size};
                p.kernel = {1, kernel, kernel};
                p.stride = {1, stride, stride};
                const bool weights = kind == Kind::weight_grad;
                const Bindings picked = weights ? pick_conv_weight_grad(caps, p) : pick_conv(caps, p);
                EXPECT_EQ(KernelFile::builtin(weights ? "conv_weight_grad" : "conv").refusal(picked), "");
                EXPECT_GE(pick_conv_parts(caps, p), 1);
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
