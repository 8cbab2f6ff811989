// A graph in several submissions, with something to be done between two: the values are those of one submission, also
// when others run meanwhile, and nobody is held up.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/image_bytes.h"
#include "heddle/core/run/launch_memory.h"
#include "heddle/core/run/launcher.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

class Segments : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() { return device(GetParam()); }

  // A graph with temporaries that reads a host value first and last; unfused, so that it has several launches.
  void SetUp() override {
    Generator generator(3);
    x = uniform({37, 29}, -1, 1, &dev(), &generator);
    eval({x});
    const Tensor factor = Tensor::host_scalar(3.0f, &dev()), y = sum(tanh(x * factor) * x, {1}) + factor;
    const NodePtr root = y.node();
    captured = capture({&root, 1});
    image = CompiledGraph::compile(dev(), captured, false, {})->image();
    ASSERT_GE(image.launches.size(), 4u);
    ASSERT_FALSE(image.arena_bytes.empty());
    ASSERT_EQ(captured.host_values.size(), 1u);
    image.cuts.resize(image.launches.size() - 1);
    std::iota(image.cuts.begin(), image.cuts.end(), 1);
  }

  Launcher::Inputs inputs(const std::vector<HostValue>& values) const {
    return {captured.storages, captured.bases, values};
  }
  std::vector<uint8_t> bytes(const GraphResult& result) {
    Storage& storage = *result.outputs.at(0).storage;
    std::vector<uint8_t> all(storage.bytes());
    dev().read(storage, 0, all.data(), all.size());
    return all;
  }
  // Of one submission.
  std::vector<uint8_t> expected(const std::vector<HostValue>& values) {
    GraphImage whole = image;
    whole.cuts.clear();
    return bytes(Launcher(dev(), whole).run(inputs(values)));
  }

  bool computes() { return dev().caps().device_class != DeviceClass::null; }

  Tensor x;
  Capture captured;
  GraphImage image;
};

TEST_P(Segments, GiveTheValuesOfOneSubmission) {
  const std::vector<HostValue>& values = captured.host_values;
  Launcher launcher(dev(), image);
  const uint64_t before = dev().counters().submissions;
  std::vector<size_t> seen;
  const GraphResult result = launcher.run(inputs(values), nullptr, [&](size_t segment, const Event& end) {
    seen.push_back(segment);
    end.wait();
    EXPECT_TRUE(end.done());
  });
  EXPECT_EQ(dev().counters().submissions - before, image.launches.size());
  std::vector<size_t> all(image.cuts.size());
  std::iota(all.begin(), all.end(), size_t{0});
  EXPECT_EQ(seen, all);
  EXPECT_EQ(bytes(result), expected(values));
  EXPECT_EQ(bytes(launcher.run(inputs(values))), expected(values));  // nothing between them
}

// Another thread runs the same graph with another host value between every two segments: arena, host values and
// recordings are not shared.
TEST_P(Segments, AnotherRunMayComeBetween) {
  const std::vector<HostValue>& values = captured.host_values;
  std::vector<HostValue> others = values;
  const Tensor other = Tensor::host_scalar(-7.0f, &dev());
  others[0] = *other.node()->host;
  const std::vector<uint8_t> here = expected(values), there = expected(others);
  ASSERT_EQ(here != there, computes());
  Launcher launcher(dev(), image);
  for (int round = 0; round < 3; ++round) {
    const GraphResult result = launcher.run(inputs(values), nullptr, [&](size_t, const Event&) {
      std::thread([&] { EXPECT_EQ(bytes(launcher.run(inputs(others))), there); }).join();
      EXPECT_EQ((x * 0.0 + 2.0).to_vector<float>()[5], computes() ? 2.0f : 0.0f);  // and this thread works on
    });
    EXPECT_EQ(bytes(result), here) << round;
  }
  EXPECT_LE(launch_memory(dev()).arenas(), 2u);
}

// In one submission each: one arena, one compiled graph.
TEST_P(Segments, ThreadsRunTheSameGraphWithHostValuesOfTheirOwn) {
  const Tensor ones = Tensor::from_vector(std::vector<float>(777, 1.0f), {777}, &dev());
  const auto twice = [&](float number) {
    const Tensor factor = Tensor::host_scalar(number, &dev());
    return (ones * factor + factor).to_vector<float>();
  };
  twice(1);
  const DeviceCounters before = dev().counters();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const auto number = static_cast<float>(100 * t + i);
        EXPECT_EQ(twice(number), std::vector<float>(777, computes() ? 2 * number : 0));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(dev().counters().steps_compiled, before.steps_compiled);
  EXPECT_EQ(dev().counters().submissions - before.submissions, 100u);
}

TEST_P(Segments, NobodyHoldsTheLockBetween) {
  Launcher launcher(dev(), image);
  int probed = 0;
  launcher.run(inputs(captured.host_values), nullptr, [&](size_t, const Event&) {
    auto other = std::async(std::launch::async, [&] { return dev().memory().live_bytes; });
    ASSERT_EQ(other.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    ++probed;
  });
  EXPECT_EQ(probed, static_cast<int>(image.cuts.size()));
}

TEST_P(Segments, WhatFailsBetweenEndsTheRun) {
  Launcher launcher(dev(), image);
  const size_t arenas = launch_memory(dev()).arenas();
  for (int round = 0; round < 3; ++round)
    EXPECT_THROW(launcher.run(inputs(captured.host_values), nullptr,
                              [](size_t, const Event&) { throw std::runtime_error("the peer is gone"); }),
                 std::runtime_error);
  EXPECT_EQ(bytes(launcher.run(inputs(captured.host_values))), expected(captured.host_values));
  EXPECT_EQ(launch_memory(dev()).arenas(), std::max<size_t>(arenas, 1));  // it was given back
}

TEST_P(Segments, AreWrittenAndReadAndChecked) {
  EXPECT_EQ(image_from_bytes(image_bytes(image)).cuts, image.cuts);
  const int32_t count = static_cast<int32_t>(image.launches.size());
  for (const std::vector<int32_t>& cuts : {std::vector<int32_t>{0}, {-1}, {count}, {2, 1}, {1, 1}}) {
    GraphImage bad = image;
    bad.cuts = cuts;
    EXPECT_EQ(image_fault(bad), "a segment is empty or not in order") << testing::PrintToString(cuts);
    EXPECT_THROW(image_from_bytes(image_bytes(bad)), IoError);
  }
}

std::vector<std::string> devices() {
  std::vector<std::string> ids = test::kernel_devices();
  ids.push_back("null:0");  // follows which bytes were written; its values are zeros
  return ids;
}

INSTANTIATE_TEST_SUITE_P(Devices, Segments, testing::ValuesIn(devices()), [](const auto& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

}  // namespace
}  // namespace heddle
