// The profiler on devices: bytes of fused against unfused chains, times, and that watching changes no value.
#include "heddle/core/inspect/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "heddle/core/device/locked_device.h"
#include "heddle/core/inspect/saved_launch.h"
#include "heddle/heddle.h"
#include "tests/support/device_test.h"

namespace heddle {
namespace {

// A training step on fixed data.
struct Training {
  explicit Training(DeviceContext& d) {
    manual_seed(5);
    model = nn::Sequential{nn::Linear(20, 16, {.device = d}), nn::ReLU(), nn::Linear(16, 10, {.device = d})};
    optimizer = std::make_unique<nn::Adam>(model.parameters(), 1e-3);
    x = Tensor::from_vector(std::vector<float>(8 * 20, 0.25f), {8, 20}, &d);
    y = Tensor::from_vector(std::vector<int32_t>(8, 3), {8}, &d);
  }
  Tensor record() {
    const Tensor loss = cross_entropy(model(x), y);
    backward(loss);
    optimizer->update();
    optimizer->zero_grad();
    return loss;
  }
  nn::Sequential model;
  std::unique_ptr<nn::Adam> optimizer;
  Tensor x, y;
};

class ProfilerOn : public tests::DeviceTest {
 protected:
  // Bytes that five functions of one tensor move.
  double chain_bytes(const Tensor& x, size_t& kernels) {
    Profiler profiler;
    {
      const Tensor y = tanh(exp(sqrt(abs(neg(x)))));
      eval_pending();
    }
    double bytes = 0;
    const Profile& profile = profiler.stop();
    for (const KernelSpan& run : profile.runs) bytes += profile.kernels[run.kernel].facts.bytes();
    kernels = profile.runs.size();
    return bytes;
  }
};

// A show of the project's fourth issue: a fused chain of five moves at least five times fewer bytes.
TEST_P(ProfilerOn, FusedChainOfFiveMovesAFifthOfTheBytes) {
  constexpr int64_t n = 12345;
  const Tensor x = Tensor::from_vector(std::vector<float>(n, 0.3f), {n}, &device());
  size_t fused_kernels = 0, unfused_kernels = 0;
  const double fused = chain_bytes(x, fused_kernels);
  const EagerScope one_by_one;
  const double unfused = chain_bytes(x, unfused_kernels);
  EXPECT_EQ(fused_kernels, 1u);
  EXPECT_EQ(unfused_kernels, 5u);
  EXPECT_EQ(fused, 2 * 4 * n);
  EXPECT_EQ(unfused, 10 * 4 * n);
  EXPECT_GE(unfused, 5 * fused);
}

TEST_P(ProfilerOn, TimesAreInOrderAndAddUp) {
  Training step(device());
  for (int i = 0; i < 2; ++i) {
    step.record();
    eval_pending();
  }
  Profiler profiler;
  for (int i = 0; i < 40; ++i) {
    step.record();
    eval_pending();
  }
  const Profile& profile = profiler.stop();
  ASSERT_EQ(profile.submissions.size(), 40u);
  EXPECT_EQ(profile.dropped, 0u);
  EXPECT_GT(profile.kernel_seconds(), 0);
  EXPECT_LE(profile.kernel_seconds(), profile.device_seconds() * (1 + 1e-9));
  EXPECT_LE(profile.device_seconds(), profile.seconds);
  double before = 0;
  for (const KernelSpan& run : profile.runs) {
    EXPECT_LE(before, run.start + 1e-9);
    EXPECT_LE(run.start, run.end);
    before = run.end;
    EXPECT_LE(profile.submissions[run.submission].submitted, run.start + 1e-9) << "before it was submitted";
  }
  double total = 0;
  for (const KernelRow& row : profile.rows()) total += row.total;
  EXPECT_NEAR(total, profile.kernel_seconds(), 1e-9);
}

TEST_P(ProfilerOn, ChangesNoValue) {
  const auto losses = [&] {
    Training step(device());
    std::vector<float> values;
    for (int i = 0; i < 4; ++i) values.push_back(static_cast<float>(step.record().item()));
    return values;
  };
  const std::vector<float> plain = losses();
  Profiler profiler;
  EXPECT_EQ(losses(), plain);
}

// Every launch of a step can be repeated alone from what is on disk.
TEST_P(ProfilerOn, LaunchesAreKept) {
  Profiler profiler;
  Training step(device());
  step.record();
  eval_pending();
  const Profile& profile = profiler.stop();
  size_t repeated = 0;
  for (const ProfiledKernel& kernel : profile.kernels) {
    if (kernel.facts.launch.empty()) continue;  // no cache folder, or the copy command
    const std::optional<SavedLaunch> saved = load_launch(kernel.facts.launch);
    ASSERT_TRUE(saved) << kernel.facts.name;
    EXPECT_EQ(saved->source.hash(), kernel.facts.source);
    EXPECT_EQ(saved->flops, kernel.facts.flops);
    EXPECT_EQ(saved->bytes, kernel.facts.bytes());
    const RestoredLaunch restored = restore_launch(*saved, device());
    EXPECT_TRUE(std::ranges::equal(saved->groups, restored.dispatch.groups)) << kernel.facts.name;
    auto locked = device().lock();
    const Command command = restored.dispatch;
    const RecordingId recording = locked.device.record(std::span(&command, 1), false);
    locked.device.wait(locked.device.submit(recording));
    locked.device.release(recording);
    ++repeated;
  }
  EXPECT_GE(repeated, 5u);
  EXPECT_FALSE(load_launch("0123456789abcdef"));
}

HEDDLE_DEVICE_TESTS(ProfilerOn);

}  // namespace
}  // namespace heddle
