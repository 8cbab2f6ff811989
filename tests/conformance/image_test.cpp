// A plan is data: its image runs in another process, which never saw the graph, and gives the same bits.
#ifdef HEDDLE_HAS_BENCH
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "bench/training_step.h"
#include "heddle/core/base/unravel.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/memory/memory_budget.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/image_binaries.h"
#include "heddle/core/run/image_bytes.h"
#include "heddle/nn/nn.h"
#include "tests/support/coverage.h"
#include "tests/support/devices.h"
#include "tests/support/image_job.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

// Beside the last range where it can be.
void add(std::vector<test::ImageJob::Range>& ranges, uint64_t begin, uint64_t size) {
  if (!ranges.empty() && ranges.back().begin + ranges.back().size == begin) {
    ranges.back().size += size;
  } else {
    ranges.push_back({begin, size});
  }
}

// What is pending, planned and run here; `job` gets what another process needs to do the same, but for the image.
test::ImageResults run_here(DeviceContext& dev, test::ImageJob& job, GraphImage& image) {
  const Capture captured = capture(held_pending());
  const auto graph = CompiledGraph::compile(dev, captured, true, {});
  image = graph->image();
  for (size_t slot = 0; slot < captured.storages.size(); ++slot) {
    Storage& storage = *captured.storages[slot];
    job.inputs.push_back({test::bytes_of(dev, storage, 0, storage.bytes()), captured.bases[slot]});
  }
  job.host_words.resize(captured.host_values.size() * 4);
  std::memcpy(job.host_words.data(), captured.host_values.data(), captured.host_values.size() * sizeof(HostValue));
  const GraphResult result = graph->run(captured);
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    // Element by element: between the rows that a loop stacks lie bytes that nobody writes.
    const View& view = result.outputs[i].view;
    const uint64_t size = size_of(captured.outputs[i]->dtype);
    job.outputs.emplace_back();
    for (int64_t flat = 0; flat < view.shape.numel(); ++flat)
      add(job.outputs.back(), static_cast<uint64_t>(view.index(unravel(view.shape, flat))) * size, size);
  }
  return test::read_results(dev, result, job.outputs);
}

class ImageTest : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() { return device(GetParam()); }
  Tensor drawn(const Shape& shape, uint64_t seed = 1) {
    Generator generator(seed);
    return uniform(shape, -1, 1, &dev(), &generator);
  }

  void expect_same_elsewhere(const std::string& what) {
    test::ImageJob job;
    GraphImage image;
    const test::ImageResults here = run_here(dev(), job, image);
    job.image = image_bytes(image);
    expect_same_in(HEDDLE_IMAGE_RUN, job, here, what);
    // Without planner and compilers, with compiled kernels.
    add_binaries(image, dev().caps());
    job.image = image_bytes(image);
    expect_same_in(HEDDLE_RUNTIME_RUN, job, here, what + ", loaded");
    eval_pending();
  }

  void expect_same_in(const std::string& program, const test::ImageJob& job, const test::ImageResults& here,
                      const std::string& what) {
    const test::TemporaryFolder folder;
    const std::string in = folder / "job", out = folder / "results";
    test::write_archive(in, job);
    ASSERT_EQ(std::system((program + " " + GetParam() + " " + in + " " + out).c_str()), 0) << what;
    const auto there = test::read_archive<test::ImageResults>(out);
    ASSERT_EQ(there.size(), here.size()) << what;
    for (size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(there[i] == here[i]) << what << ", output " << i;
  }

  // What the program says on stderr.
  std::string complaint_of(const std::string& program, const GraphImage& image) {
    const test::TemporaryFolder folder;
    test::ImageJob job;
    job.image = image_bytes(image);
    test::write_archive(folder / "job", job);
    const std::string said = folder / "said";
    const std::string command =
        program + " " + GetParam() + " " + (folder / "job") + " " + (folder / "results") + " 2> " + said;
    EXPECT_NE(std::system(command.c_str()), 0);
    std::ifstream file(said);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_P(ImageTest, TrainingStepsRunInAnotherProcess) {
  size_t number = 0;
  for (const char* text : {"mlp:32", "cnn:4", "gpt:2x16x2x32", "char-lstm:2"}) {
    if (!tests::takes_case(dev().id(), "", number++)) continue;
    const bench::TrainingStep step = bench::make_training_step(text, dev());
    step.record();
    eval_pending();
    const Tensor loss = step.record();
    expect_same_elsewhere(text);
  }
}

TEST_P(ImageTest, LoopsRunInAnotherProcess) {
  const Tensor xs = drawn({7, 5}), start = drawn({5}, 2);
  eval({xs, start});
  const Scanned loop = scan(
      [](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
        const Tensor next = tanh(carry[0] + x[0]);
        return Scanned{{next}, {next * 2.0}};
      },
      {start}, {xs});
  const Tensor sums = sum(loop.ys[0], {1}), last = loop.carry[0] + 1.0;
  expect_same_elsewhere("scan");
}

TEST_P(ImageTest, ViewsOffsetsAndAssignsRunInAnotherProcess) {
  const Tensor x = drawn({9, 33});
  Tensor w = drawn({4, 33}, 2);
  eval({x, w});
  w.assign(w * 0.5 + slice(x, 0, {2, 6}));
  const Tensor rows = transpose(slice(slice(x, 0, {1, 8}), 1, {3, 30})), draws = uniform({3, 5}, 0, 1, &dev());
  const Tensor y = sum(exp(rows), {0}), empty = zeros({0, 3}, DType::f32, &dev()) + 1.0;
  expect_same_elsewhere("views");
}

TEST_P(ImageTest, WhatIsComputedOnceAndWhatWaitsOnTheHostRunInAnotherProcess) {
  const bench::TrainingStep step = bench::make_training_step("gpt-offload:2x16x2x32", dev());
  step.record();
  eval_pending();
  const Tensor loss = step.record();
  expect_same_elsewhere("offload");
}

TEST_P(ImageTest, AProgramWithoutCompilersSaysSo) {
  const Tensor y = exp(drawn({3, 5}));
  const auto graph = CompiledGraph::compile(dev(), capture(held_pending()), true, {});
  EXPECT_NE(complaint_of(HEDDLE_RUNTIME_RUN, graph->image()).find("no compiler"), std::string::npos);
  eval_pending();
}

INSTANTIATE_TEST_SUITE_P(Devices, ImageTest, ::testing::ValuesIn(test::kernel_devices()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

}  // namespace
}  // namespace heddle
#endif  // HEDDLE_HAS_BENCH
