// Values do not depend on which passes are on: random programs and whole training steps, with every pass off by itself
// and all of them off.
#include "heddle/core/simplify/passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "heddle/heddle.h"
#include "heddle/nn/models/cnn.h"
#include "heddle/nn/models/gpt.h"
#include "tests/support/devices.h"
#include "tests/support/random_graph.h"

namespace heddle {
namespace {

using Lists = std::vector<std::vector<double>>;

Lists program_values(DeviceContext& device, uint64_t seed, int ops) {
  const test::RandomProgram program = test::random_program(device, seed, ops);
  Lists all;
  for (const Tensor& t : program.held) all.push_back(t.to_doubles());
  for (const Tensor& t : program.parameters) all.push_back(t.to_doubles());
  return all;
}

template <class T>
Tensor numbers(const Shape& shape, int modulus, double scale, DeviceContext& device) {
  std::vector<T> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(static_cast<double>((i * 7919 + 13) % static_cast<size_t>(modulus)) * scale);
  return Tensor::from_vector(values, shape, &device);
}

// Two steps, so that the optimizer's state is read too.
Lists train(nn::Module& model, const std::function<Tensor()>& loss) {
  nn::AdamW optimizer(model.parameters(), 1e-2);
  Lists all;
  for (int step = 0; step < 2; ++step) {
    const Tensor value = loss();
    backward(value);
    optimizer.step();
    optimizer.zero_grad();
    all.push_back(value.to_doubles());
  }
  for (const Tensor& p : model.parameters()) all.push_back(p.to_doubles());
  return all;
}

Lists mlp(DeviceContext& device) {
  manual_seed(5);
  nn::Sequential model{nn::Linear(12, 9, {.device = device}), nn::GELU(), nn::Linear(9, 4, {.device = device})};
  const Tensor x = numbers<float>({5, 12}, 11, 0.1, device), y = numbers<int32_t>({5}, 4, 1, device);
  return train(model, [&] { return cross_entropy(model(x), y); });
}

Lists cnn(DeviceContext& device) {
  manual_seed(6);
  nn::Cnn model(nn::CnnOptions{.channels = 1, .widths = {4, 6}, .classes = 3}, {.device = device});
  const Tensor x = numbers<float>({3, 1, 8, 8}, 17, 0.1, device), y = numbers<int32_t>({3}, 3, 1, device);
  return train(model, [&] { return cross_entropy(model(x), y); });
}

Lists gpt(DeviceContext& device) {
  manual_seed(7);
  nn::Gpt model(
      nn::GptOptions{
          .vocabulary = 17, .context = 6, .layers = 1, .heads = 2, .width = 8, .dropout = 0, .checkpoint = true},
      {.device = device});
  const Tensor x = numbers<int32_t>({2, 6}, 17, 1, device), y = numbers<int32_t>({12}, 17, 1, device);
  return train(model, [&] { return cross_entropy(reshape(model(x), {-1, 17}), y); });
}

void expect_close(const Lists& got, const Lists& want, double tolerance, const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (size_t t = 0; t < got.size(); ++t) {
    ASSERT_EQ(got[t].size(), want[t].size()) << where << " tensor " << t;
    for (size_t i = 0; i < got[t].size(); ++i)
      ASSERT_NEAR(got[t][i], want[t][i], tolerance * (1 + std::abs(want[t][i])))
          << where << " tensor " << t << " element " << i;
  }
}

// Every set of switches that is tested, with its name.
std::vector<std::string> switches() {
  std::vector<std::string> all{"none"};
  for (const PassInfo& info : all_passes()) {
    if (!info.required) all.push_back("-" + std::string(info.name));
  }
  return all;
}

TEST(PassesOff, RandomProgramsAgreeWithReference) {
  for (const std::string& id : test::kernel_devices()) {
    for (uint64_t seed = 201; seed <= 203; ++seed) {
      const Lists want = program_values(device("reference:0"), seed, 18);
      for (const std::string& text : switches()) {
        const PassScope scope(text);
        expect_close(program_values(device(id), seed, 18), want, 2e-4,
                     id + " " + text + " seed " + std::to_string(seed));
      }
    }
  }
}

// AdamW's first steps are signs of gradients: where a gradient is next to nothing, rounding decides, so the tolerance
// is that of a rate of 1e-2.
TEST(PassesOff, TrainingStepsAgreeWithReference) {
  const std::pair<const char*, Lists (*)(DeviceContext&)> steps[] = {{"mlp", mlp}, {"cnn", cnn}, {"gpt", gpt}};
  for (size_t s = 0; s < std::size(steps); ++s) {
    const auto& [name, step] = steps[s];
    const Lists want = step(device("reference:0"));
    for (const std::string& id : test::kernel_devices()) {
      const bool each = id.starts_with("opencl");  // compiling for the others takes long
      const std::vector<std::string> texts = each ? switches() : std::vector<std::string>{"none", "all"};
      for (size_t i = 0; i < texts.size(); ++i) {
        // A pass is off in one of the steps; random programs do without each.
        if (each && i > 0 && i % std::size(steps) != s) continue;
        const PassScope scope(texts[i]);
        expect_close(step(device(id)), want, 2e-3, id + " " + name + " " + texts[i]);
      }
    }
  }
}

}  // namespace
}  // namespace heddle
