// A training on a device that fails: at every allocation, compilation, recording, submission, wait, read and write of
// 50 steps. Always a typed error or success; what was on disk stays whole; a run that goes on after the error computes
// the same bits as one without; other devices are not touched.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/compile_notice.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/future.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/nn.h"
#include "tests/support/devices.h"
#include "tests/support/faulty_device.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using test::Call;
using test::Fault;
using test::Faults;
using test::faults;

constexpr int steps = 50, checkpoint_every = 20;

// What one run leaves behind. `weights` is empty when it ended by a fault.
struct Result {
  std::vector<uint8_t> weights;
  int faults_met = 0;
  std::string error;
};

class FaultyTraining : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> known = test::kernel_devices();
    if (std::find(known.begin(), known.end(), "opencl:0") == known.end()) GTEST_SKIP() << "no opencl:0";
    test::register_faulty("opencl:0");
    faults().reset();
  }
  void TearDown() override { faults().reset(); }

  DeviceContext& dev() { return device("faulty:0"); }
  // A context of its own, which has compiled and allocated nothing yet.
  void start_afresh() {
    dev();
    faults().dead = true;
    reopen_device("faulty:0");
  }

  // Runs f, again after an error of a device that goes on working; at most five times.
  template <class F>
  void persist(Result& result, F&& f) {
    for (int attempt = 0;; ++attempt) {
      try {
        return f();
      } catch (const DeviceLost&) {
        throw;
      } catch (const DeviceError& error) {
        result.error = error.what();
        ++result.faults_met;
        if (attempt == 4) throw;
      }
    }
  }

  void save(const nn::Sequential& model, const nn::Optimizer& optimizer, int step) {
    TensorMap all;
    for (const auto& [name, tensor] : model.state_dict()) all.emplace("model." + name, tensor);
    for (const auto& [name, tensor] : optimizer.state_dict()) all.emplace("optimizer." + name, tensor);
    save_safetensors(checkpoint(), all, {{"step", std::to_string(step)}});
  }
  std::string checkpoint() const { return folder_ / "checkpoint.safetensors"; }

  void train(Result& result, DeviceContext& d) {
    manual_seed(3);
    std::unique_ptr<nn::Sequential> model;
    persist(result, [&] {
      manual_seed(3);
      model = std::make_unique<nn::Sequential>(nn::Linear(6, 8, {.device = d}), nn::Tanh(),
                                               nn::Linear(8, 3, {.device = d}));
    });
    nn::Adam optimizer(model->parameters(), nn::AdamOptions{.lr = 0.01});
    for (int step = 1; step <= steps; ++step) {
      Tensor x, y;
      persist(result, [&] {
        std::vector<float> values(24);
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = std::sin(static_cast<float>(i * static_cast<size_t>(step)));
        x = Tensor::from_vector(values, {4, 6}, &d);
        y = Tensor::from_vector(std::vector<int32_t>{0, 1, 2, step % 3}, {4}, &d);
      });
      const Tensor loss = cross_entropy((*model)(x), y);
      backward(loss);
      persist(result, [&] { optimizer.update(); });
      optimizer.zero_grad();
      persist(result, [&] { eval_pending(); });
      if (step % 10 == 0) persist(result, [&] { EXPECT_TRUE(std::isfinite(loss.item())); });
      if (step % checkpoint_every == 0)
        persist(result, [&] {
          d.synchronize();
          save(*model, optimizer, step);
        });
    }
    persist(result, [&] {
      result.weights.clear();
      for (const Tensor& parameter : model->parameters()) {
        const std::vector<uint8_t> bytes = parameter.to_bytes();
        result.weights.insert(result.weights.end(), bytes.begin(), bytes.end());
      }
    });
  }

  // Any other exception than a typed one fails the test.
  Result run(DeviceContext& d) {
    Result result;
    try {
      train(result, d);
    } catch (const Error& error) {
      result.weights.clear();
      result.error = error.what();
      ++result.faults_met;
    }
    return result;
  }

  void expect_whole_checkpoint(const std::string& when) {
    if (!std::filesystem::exists(checkpoint())) return;
    const SafetensorsFile file = load_safetensors(checkpoint(), &device("reference:0"));
    EXPECT_TRUE(file.metadata.contains("step")) << when;
    for (const auto& [name, tensor] : file.tensors) {
      for (double value : tensor.to_doubles()) ASSERT_TRUE(std::isfinite(value)) << when << ": " << name;
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      EXPECT_EQ(entry.path(), checkpoint()) << when;
  }

  void expect_usable(DeviceContext& d, const std::string& when) {
    const Tensor x = Tensor::from_vector(std::vector<float>{1, 2, 3}, {3}, &d);
    EXPECT_EQ(sum(x * 2.0 + 1.0).item(), 15.0) << when;
  }

  test::TemporaryFolder folder_;
};

TEST_F(FaultyTraining, GoesOnAfterAnyFaultWithTheSameBits) {
  start_afresh();
  const Result cold = run(dev());
  ASSERT_EQ(cold.faults_met, 0) << cold.error;
  const Faults seen_cold = faults();
  faults().reset();
  const Result warm = run(dev());
  ASSERT_EQ(warm.weights, cold.weights);
  const Faults seen_warm = faults();
  for (const Call call : test::all_calls) {
    // Compilations and most allocations happen once per context; everything else happens in a warm one as well.
    const bool needs_cold = call == Call::compile || call == Call::alloc || call == Call::record;
    const uint64_t count = (needs_cold ? seen_cold : seen_warm).seen[static_cast<size_t>(call)];
    EXPECT_GT(count, 0u) << test::name_of(call);
    for (uint64_t n = 1; n <= count; ++n) {
      if (needs_cold) start_afresh();
      faults().reset({call, n, Fault::error});
      const Result result = run(dev());
      const std::string when = fmt::format("{} {} of {}", test::name_of(call), n, count);
      EXPECT_LE(result.faults_met, 1) << when << ": " << result.error;
      EXPECT_TRUE(result.faults_met == 1 || call == Call::alloc)
          << when << ": only an allocation is tried again by the library itself";
      ASSERT_EQ(result.weights, cold.weights) << when << ": " << result.error;
      expect_whole_checkpoint(when);
    }
  }
}

TEST_F(FaultyTraining, ALostDeviceTakesNobodyWithIt) {
  start_afresh();
  const Result whole = run(dev());
  const Faults seen = faults();
  for (const Call call : {Call::alloc, Call::submit, Call::wait, Call::read, Call::write}) {
    const uint64_t count = seen.seen[static_cast<size_t>(call)];
    for (const uint64_t n : {uint64_t{1}, count / 2 + 1, count}) {
      for (const Fault fault : {Fault::lost, Fault::timeout}) {
        if (fault == Fault::timeout && n != count) continue;  // the same path: once a call
        start_afresh();
        DeviceContext& d = dev();
        // The context's one block is allocated for whoever comes first: the training, where an allocation is to fail.
        Tensor kept, derived;
        if (call != Call::alloc) {
          kept = Tensor::from_vector(std::vector<float>{1, 2}, {2}, &d);
          derived = kept + 1.0;
        }
        faults().reset({call, n, fault});
        const Result result = run(d);
        const std::string when = fmt::format("{} {} of {}", test::name_of(call), n, count);
        EXPECT_TRUE(result.weights.empty() && !result.error.empty()) << when;
        EXPECT_TRUE(d.lost()) << when;
        if (kept.defined()) {
          EXPECT_THROW(kept.to_bytes(), DeviceLost) << when;
          EXPECT_THROW(derived.to_bytes(), DeviceLost) << when;
          EXPECT_THROW(read_async(kept), DeviceLost) << when;
        }
        EXPECT_THROW(Tensor::from_vector(std::vector<float>{1}, {1}, &d), DeviceLost) << when;
        expect_usable(device("opencl:0"), when);
        expect_usable(device("reference:0"), when);
        expect_whole_checkpoint(when);
        DeviceContext& again = reopen_device("faulty:0");
        EXPECT_NE(&again, &d) << when;
        expect_usable(again, when);
      }
    }
  }
  EXPECT_EQ(run(dev()).weights, whole.weights);
}

TEST_F(FaultyTraining, FaultsNameTheLinesOfTheKernels) {
  start_afresh();
  const Tensor x = Tensor::from_vector(std::vector<float>{1, 2, 3}, {3}, &dev());
  const auto text_of = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const Tensor y = exp(x * 5.25) + 1.125;
  const std::string line = fmt::format("; computes faults_test.cpp:{}", __LINE__ - 1);
  faults().reset({Call::compile, 1, Fault::error});
  const std::string refused = text_of([&] { y.to_bytes(); });
  EXPECT_NE(refused.find(line), std::string::npos) << refused;
  faults().reset({Call::read, 1, Fault::lost});
  const std::string lost = text_of([&] { y.to_bytes(); });
  EXPECT_NE(lost.find("last commands: "), std::string::npos) << lost;
  EXPECT_NE(lost.find(line), std::string::npos) << lost;
  // A value that is used after its device was lost.
  EXPECT_NE(text_of([&] { (y * 2.0).to_bytes(); }).find("the device was lost"), std::string::npos);
  start_afresh();
  const Tensor z = Tensor::from_vector(std::vector<float>{1, 2, 3}, {3}, &dev()) * 2.5;
  faults().reset({Call::submit, 1, Fault::timeout});
  const std::string late = text_of([&] { z.to_bytes(); });
  EXPECT_NE(late.find(fmt::format("; computes faults_test.cpp:{}", __LINE__ - 3)), std::string::npos) << late;
}

TEST_F(FaultyTraining, AFailedTensorDoesNotStandInTheWayOfOthers) {
  start_afresh();
  const Tensor x = Tensor::from_vector(std::vector<float>{1, 2, 3}, {3}, &dev());
  const Tensor bad = exp(x * 3.25) + 7.75;  // held, and pending with everything else
  faults().reset({Call::compile, 1, Fault::error});
  const Tensor other = Tensor::from_vector(std::vector<float>{4}, {1}, &device("reference:0")) * 2.0;
  EXPECT_EQ(other.item(), 8.0) << "the fault is of a device that nobody asked";
  EXPECT_NEAR(bad.to_doubles()[0], std::exp(3.25) + 7.75, 1e-3) << "and its work was kept";
  const Tensor later = x + 0.5;
  faults().reset({Call::submit, 1, Fault::error});
  EXPECT_THROW(eval_pending(), DeviceError);
  EXPECT_NO_THROW(eval_pending());
  EXPECT_EQ(later.to_doubles()[2], 3.5);
}

// Whatever fails while the averages are put in the parameters' place: the parameters are as before.
TEST_F(FaultyTraining, AveragesThatCannotBePutInPlaceLeaveTheParameters) {
  start_afresh();
  const auto made = [&](DType dtype, int64_t n) {
    return arange(0, static_cast<double>(n), 1, DType::f32, &dev()).to(dtype);
  };
  Tensor wide = made(DType::f32, 5).set_requires_grad(), half = made(DType::f16, 300).set_requires_grad();
  nn::ExponentialAverage average({wide, half}, 0.5);
  wide.assign(wide.detach() + 1.5);
  half.assign(half.detach() * 0.25);
  average.update();
  eval_pending();
  const std::vector<uint8_t> before[] = {wide.to_bytes(), half.to_bytes()};
  int met = 0;
  for (const Call call : test::all_calls) {
    for (uint64_t at = 1;; ++at) {
      faults().reset({call, at, Fault::error});
      bool failed = false;
      try {
        const nn::ExponentialAverage::Scope in_place(average);
        faults().reset();  // what is left of the plan is not for the way back
      } catch (const Error&) {
        failed = true;
      }
      faults().reset();
      const std::string when = fmt::format("{} {}", test::name_of(call), at);
      EXPECT_EQ(wide.to_bytes(), before[0]) << when;
      EXPECT_EQ(half.to_bytes(), before[1]) << when;
      EXPECT_TRUE(wide.requires_grad() && wide.is_leaf()) << when;
      if (!failed) break;
      ++met;
    }
  }
  EXPECT_GE(met, 5);
  {
    const nn::ExponentialAverage::Scope in_place(average);
    EXPECT_EQ(wide.to_bytes(), average.averages()[0].to_bytes());
  }
  EXPECT_EQ(wide.to_bytes(), before[0]);
}

// A program that waits for its first kernels is told so.
TEST_F(FaultyTraining, LongCompilationsAreAnnounced) {
  ::unsetenv("HEDDLE_QUIET");
  start_afresh();
  CompileNotice::reset(0.05);
  const auto said = [&](int milliseconds) {
    faults().compile_milliseconds = milliseconds;
    testing::internal::CaptureStderr();
    const Tensor x = full({3, 7}, 0.5, DType::f32, &dev());
    eval({milliseconds > 0 ? tanh(x) + 0.125 : cos(x) * 0.25});
    return testing::internal::GetCapturedStderr();
  };
  const std::string text = said(300);
  EXPECT_TRUE(text.starts_with("heddle: faulty:0 compiles kernels for the first time, 0 of ")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(said(0), "");  // once is enough
  CompileNotice::reset(2);
}

}  // namespace
}  // namespace heddle
