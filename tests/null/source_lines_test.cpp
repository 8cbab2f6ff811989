// Which lines of this file the kernels of a step name, through the passes; and the report of a compiled function.
#include "heddle/core/ir/source_lines.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/compile/dump.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/planner.h"
#include "heddle/nn/nn.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::leaf;
using test::null_device;

std::string line(unsigned number) { return "source_lines_test.cpp:" + std::to_string(number); }

// The lines of each kernel of what is pending, as texts.
std::vector<std::vector<std::string>> pending_lines() {
  const std::vector<NodePtr> roots = held_pending();
  const Capture captured = capture(roots);
  const Plan plan = make_plan(prepare(import_graph(captured), null_device().caps()), null_device().caps());
  std::vector<std::vector<std::string>> all;
  for (const std::vector<SourceLine>& lines : kernel_lines(plan.scheduled, plan.kernels, captured)) {
    all.emplace_back();
    for (const SourceLine& line : lines) all.back().push_back(line.str());
  }
  return all;
}

TEST(Places, AFusedKernelNamesAllItsLines) {
  const Tensor x = leaf({4, 8});
  const Tensor a = exp(x) * 2;
  const Tensor y = softmax(a);
  const auto lines = pending_lines();
  ASSERT_FALSE(lines.empty());
  std::vector<std::string> all;
  for (const auto& kernel : lines) all.insert(all.end(), kernel.begin(), kernel.end());
  EXPECT_NE(std::find(all.begin(), all.end(), line(__LINE__ - 6)), all.end());
  EXPECT_NE(std::find(all.begin(), all.end(), line(__LINE__ - 6)), all.end());
  eval_pending();
}

TEST(Places, KernelsThatPassesMakeForThemselvesNameWhomTheyServe) {
  const Tensor x = leaf({1 << 20});
  const Tensor s = sum(x * x);  // in two stages
  const unsigned at = __LINE__ - 1;
  const auto lines = pending_lines();
  EXPECT_GE(lines.size(), 2u);
  for (const auto& kernel : lines) EXPECT_EQ(kernel, std::vector<std::string>{line(at)});
  eval_pending();
}

TEST(Places, EveryKernelOfATrainingStepHasOne) {
  nn::Sequential model(nn::Linear(16, 8, {.device = null_device()}), nn::ReLU(),
                       nn::Linear(8, 4, {.device = null_device()}));
  nn::Adam adam(model.parameters());
  const Tensor x = leaf({5, 16});
  const Tensor target = zeros({5}, DType::i64, &null_device());
  const auto step = [&] {
    const Tensor y = model(x);
    const unsigned forward = __LINE__ - 1;
    const Tensor loss = cross_entropy(y, target);
    backward(loss);
    adam.update();
    adam.zero_grad();
    return forward;
  };
  step();
  eval_pending();
  const unsigned forward = step();
  bool backwards = false;
  for (const auto& kernel : pending_lines()) {
    EXPECT_FALSE(kernel.empty());
    for (const std::string& of : kernel) {
      EXPECT_TRUE(of.starts_with("source_lines_test.cpp:")) << of;
      backwards = backwards || of == line(forward) + " (backward)";
    }
  }
  EXPECT_TRUE(backwards);
  eval_pending();
}

TEST(Places, TheSameStructureFromAnotherLineIsTheSameStep) {
  const Tensor x = leaf({33});
  const auto before = null_device().counters();
  { eval({tanh(x) * 1.625}); }
  { eval({tanh(x) * 1.625}); }
  const auto after = null_device().counters();
  EXPECT_EQ(after.steps_compiled - before.steps_compiled, 1u);
  EXPECT_EQ(after.step_hits - before.step_hits, 1u);
}

TEST(Places, WhatADeviceRefusesNamesTheOperation) {
  Caps caps = NullDevice::null_caps();
  caps.f64 = caps.f64_math = false;
  DeviceInfo info;
  info.id = "null:narrow";
  DeviceContext narrow(std::make_unique<NullDevice>(caps), info);
  const Tensor x = Tensor::from_vector(std::vector<float>(4, 1.0f), {4}, &narrow);
  const Tensor wide = cast(x, DType::f64);
  const unsigned at = __LINE__ - 1;
  try {
    wide.to_vector<double>();
    FAIL() << "f64 was not refused";
  } catch (const DTypeError& e) {
    EXPECT_TRUE(std::string_view(e.what()).ends_with("(" + line(at) + ")")) << e.what();
  }
}

TEST(Places, NotesNameTheKernelsOfAText) {
  const std::vector<std::string> kernels{"add", "add_many"};
  const SourceLine first{Caller::current(), false};
  const SourceLine second{Caller::current(), true};
  const std::vector<std::vector<SourceLine>> lines{{first}, {second}};
  EXPECT_EQ(lines_note("last commands: add_many, x", kernels, lines, true), "; computes " + second.str());
  EXPECT_EQ(lines_note("last commands: add", kernels, lines, false), "; computes " + first.str());
  EXPECT_EQ(lines_note("nothing known", kernels, lines, false), "");
  EXPECT_EQ(lines_note("nothing known", kernels, lines, true), "; computes " + first.str() + ", " + second.str());
}

TEST(Places, TheReportOfACompiledFunction) {
  Tensor w = leaf({256});
  eval({w});
  auto f = compile([&](const Tensor& x) {
    w.assign(w * 0.5 + x);
    return sum(w * x);
  });
  EXPECT_THROW(f.memory(), ValueError);
  f(leaf({256}));
  const MemoryReport report = f.memory();
  EXPECT_EQ(report.inputs + report.optimizer_state + report.parameters, 2u * 1024);
  EXPECT_GE(report.kernels, 1u);
  EXPECT_GE(report.measured, 2u * 1024);
  EXPECT_NE(report.str().find("held when it ran"), std::string::npos);
  const Tensor y = w * 3;
  EXPECT_EQ(plan_pending().measured, 0u);
  EXPECT_GE(plan_pending().outputs, 1024u);
}

// ---- what compile() says of a function that it cannot repeat

TEST(BadInput, AFunctionThatComputesNothingIsRefusedInWords) {
  const auto f = compile([](const Tensor&) {}, {.name = "my step"});
  try {
    f(leaf({3}));
    FAIL() << "not refused";
  } catch (const ValueError& e) {
    EXPECT_STREQ(e.what(),
                 "[compile] my step returns no tensor and changes none: there is nothing to compute; return a result, "
                 "or assign() to a tensor");
  }
}

TEST(BadInput, HiddenStateThatChangedIsFoundAndSaid) {
  double hidden = 2;
  const auto f = compile([&](const Tensor& x) { return x * hidden; }, {.name = "my step"});
  const Tensor x = leaf({3});
  for (int i = 0; i < 4; ++i) f(x);
  EXPECT_GE(f.stats().replayed, 1u);
  hidden = 3;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10; ++i) f(x);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(f.stats().stale, 1u);
  EXPECT_NE(said.find("my step does something else than"), std::string::npos) << said;
  EXPECT_NE(
      said.find("a number, flag or pointer of its closure has changed. Hold it in Watched<T>, pass it as an argument"),
      std::string::npos)
      << said;
}

}  // namespace
}  // namespace heddle
