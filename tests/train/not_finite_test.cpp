// Runs whose numbers cease to be finite end with the step, the place and the last checkpoint; nothing of them is kept.
#include "heddle/train/not_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/train/trainer.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_task.h"
#include "tests/train/training.h"

namespace heddle::train {
namespace {

Config config_of(double lr, double clip_norm) {
  Config c;
  c.training.batch = 32;
  c.training.steps = 8;
  c.training.clip_norm = clip_norm;
  c.optimizer.name = "sgd";
  c.optimizer.lr = lr;
  c.optimizer.momentum = 0;
  c.schedule.name = "constant";
  c.checkpoint.every = 1;
  return c;
}

// What the run's error says; empty where it ends well.
std::string fault_of(Task& task, const Config& c, DeviceContext& device, const std::string& folder = {}) {
  Trainer trainer(task, c, device);
  std::optional<RunFolder> files;
  if (!folder.empty()) trainer.write_to(files.emplace(folder, false));
  try {
    trainer.run(false);
  } catch (const ValueError& error) {
    return error.what();
  }
  return {};
}

class NotFinite : public Training {};

// A layer that divides by 0 from its second call on.
struct Cliff final : nn::Module {
  Cliff() : Module("Cliff") {}
  Tensor forward(const Tensor& x) override {
    return x / Tensor::host_scalar([calls = calls] { return ++*calls < 2 ? 1.0f : 0.0f; }, &x.device());
  }
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};

struct Falling final : Task {
  explicit Falling(DeviceContext& device)
      : points(1, 0, device),
        layers{nn::Linear(5, 8, {.device = device}), Cliff(), nn::Linear(8, 3, {.device = device})} {}
  nn::Module& model() override { return layers; }
  const TrainingData& training() const override { return points.training(); }
  Tensor loss(const std::vector<Tensor>& batch) override { return cross_entropy(layers(batch.at(0)), batch.at(1)); }
  Evaluation evaluate(int64_t) override { return {}; }
  SmallTask points;
  nn::Sequential layers;
};

// With a limit to the norm the weights stay those of the step that failed; without one those of the last checkpoint are
// looked at.
TEST_P(NotFinite, TheLayerIsNamed) {
  for (const double clip_norm : {0.0, 1.0}) {
    SCOPED_TRACE(clip_norm);
    const test::TemporaryFolder folder;
    Falling task(device());
    const std::string fault = fault_of(task, config_of(0.1, clip_norm), device(), folder.path() + "/run");
    EXPECT_TRUE(fault.starts_with("[train] the loss became nan at step 2, first in the output of 1; ")) << fault;
    EXPECT_NE(fault.find("last good checkpoint is " + folder.path()), std::string::npos) << fault;
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/run/checkpoints/step-00000002.safetensors"));
  }
}

// The root's slope at 0 is infinite, and its value is not.
struct Steep final : Task {
  explicit Steep(DeviceContext& device) : points(1, 0, device) {}
  nn::Module& model() override { return points.model(); }
  const TrainingData& training() const override { return points.training(); }
  Tensor loss(const std::vector<Tensor>& batch) override {
    const Tensor bias = points.model().parameters().back();
    return points.loss(batch) + sum(sqrt(bias - bias.detach()));
  }
  Evaluation evaluate(int64_t limit) override { return points.evaluate(limit); }
  SmallTask points;
};

TEST_P(NotFinite, AnInfiniteNormOfGradientsEndsARun) {
  Steep task(device());
  const std::string fault = fault_of(task, config_of(0.1, 1), device());
  EXPECT_TRUE(fault.starts_with("[train] the gradients' norm became inf at step 1, first in the gradient of 3.bias; "))
      << fault;
  EXPECT_NE(fault.find("no checkpoint had been written yet"), std::string::npos) << fault;
}

TEST_P(NotFinite, UnderALossScaleSuchAnUpdateIsLeftOut) {
  Config c = config_of(0.1, 1);
  c.training.precision = "f16";
  c.training.loss_scale = 1e35;
  SmallTask task(1, 0, device());
  EXPECT_EQ(fault_of(task, c, device()), "");
}

INSTANTIATE_TEST_SUITE_P(Devices, NotFinite, testing::ValuesIn(test::value_devices()), tests::backend_test_name);

TEST(NotFiniteNames, FirstAndLast) {
  const auto of = [](float value) {
    return Tensor::from_vector<float>({1, value}, {2}, &heddle::device("reference:0"));
  };
  const float infinite = std::numeric_limits<float>::infinity();
  const nn::NamedTensors all{{"a", of(2)}, {"b", of(infinite)}, {"c", of(std::nanf(""))}, {"d", of(3)}};
  EXPECT_EQ(first_not_finite(all), "b");
  EXPECT_EQ(last_without_norm(all), "c");
  EXPECT_EQ(first_not_finite({{"a", of(2)}}), "");
  EXPECT_EQ(last_without_norm({{"a", of(2)}}), "");
}

}  // namespace
}  // namespace heddle::train
