// What ranks along tp send and keep where each has some positions between layers in parts, beside ranks that have all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/distributed/forecast/links.h"
#include "heddle/train/model_parallel/parted_model.h"
#include "tests/distributed/rank_threads.h"
#include "tests/support/device_test.h"

namespace heddle::train {
namespace {

using distributed::exact_bytes_of;
using distributed::Move;
using distributed::World;

constexpr int ranks = 2;

nn::Gpt gpt(const nn::GptOptions& options, DeviceContext& device) {
  manual_seed(5);
  nn::Gpt made(options, nn::ParameterOptions{.device = device});
  eval_pending();
  return made;
}

std::vector<Tensor> batch(int64_t rows, const nn::GptOptions& o, DeviceContext& device) {
  const auto numbers = [&](int64_t factor) {
    std::vector<int32_t> values;
    for (int64_t i = 0; i < rows * o.context; ++i) values.push_back(static_cast<int32_t>(i * factor % o.vocabulary));
    return Tensor::from_vector(values, Shape{rows, o.context}, &device);
  };
  return {numbers(7), numbers(5)};
}

// Forward and backward pass of a rank.
void pass(PartedModel& parted, const std::vector<Tensor>& in) {
  MeshScope scope(parted.links());
  const Tensor loss = parted.loss(in, 0);
  backward(loss);
  std::vector<Tensor> all{loss.detach()};
  for (Tensor p : parted.module().parameters()) {
    all.push_back(p.grad());
    p.set_grad(Tensor());
  }
  eval(all);
  scope.finish();
}

// What each rank does with its part of the model.
void with_parts(const nn::Gpt& whole, int64_t rows, bool sequence_parallel,
                const std::function<void(World&, PartedModel&)>& f, DeviceContext& device) {
  Config config;
  config.training.batch = rows;
  config.training.sequence_parallel = sequence_parallel;
  distributed::test::all_ranks(ranks, [&](World& world) {
    Replicas replicas(world, "tp=2");
    PartedModel parted(whole, config, replicas, device);
    f(world, parted);
  });
}

// Bytes of a pass by rank, and elements of what is summed once an update besides.
using Sent = std::pair<std::vector<uint64_t>, uint64_t>;
Sent sent(const nn::Gpt& whole, bool sequence_parallel, DeviceContext& device) {
  std::vector<uint64_t> bytes(ranks), elements(ranks);
  const std::vector<Tensor> in = batch(4, whole.options(), device);
  with_parts(
      whole, 4, sequence_parallel,
      [&](World& world, PartedModel& parted) {
        const auto me = static_cast<size_t>(world.rank());
        const uint64_t before = world.bytes_sent();
        pass(parted, in);
        bytes[me] = world.bytes_sent() - before;
        const std::vector<Tensor> parameters = parted.module().parameters();
        for (size_t n = 0; n < parameters.size(); ++n)
          if (parted.is_of_own_positions(n)) elements[me] += static_cast<uint64_t>(parameters[n].numel());
      },
      device);
  EXPECT_EQ(elements[0], elements[1]);
  return {bytes, elements[0]};
}

// A sum of activations is a reduce_scatter and an all_gather: two calls instead of one, of the same bytes. Korthikanti
// et al. 2022, section 4.2.2.
TEST(SequenceParallel, SendsAsManyBytesAsSums) {
  DeviceContext& device = heddle::device("reference:0");
  const nn::GptOptions o{.vocabulary = 12, .context = 8, .layers = 3, .heads = 2, .width = 6, .dropout = 0};
  const nn::Gpt whole = gpt(o, device);
  const auto [sums, none] = sent(whole, false, device);
  const auto [parts, shared] = sent(whole, true, device);
  const auto calls = static_cast<uint64_t>(4 * o.layers + 2);  // two a block and pass, the embedding, the projection
  for (size_t rank = 0; rank < ranks; ++rank) {
    const uint64_t comparison = exact_bytes_of(Move::all_gather, 0, 4, ranks, static_cast<int64_t>(rank));
    EXPECT_GT(comparison, 0u);
    EXPECT_EQ(parts[rank], sums[rank] + calls * comparison) << "rank " << rank;
  }
  EXPECT_EQ(none, 0u);
  // Norms' two vectors and two biases behind rows of each block, the last norm, the positions' table.
  EXPECT_EQ(shared, static_cast<uint64_t>(o.width * (6 * o.layers + 2 + o.context)));
}

class SequenceParallelOnDevices : public testing::TestWithParam<std::string> {};

// Two ranks of one device.
uint64_t peak(const nn::Gpt& whole, int64_t rows, bool sequence_parallel, DeviceContext& device) {
  uint64_t held = 0, most = 0;
  const std::vector<Tensor> in = batch(rows, whole.options(), device);
  eval(in);
  with_parts(
      whole, rows, sequence_parallel,
      [&](World& world, PartedModel& parted) {
        distributed::Group all = world.all();
        const auto together = [&] {
          int32_t none = 0;
          all.all_reduce(&none, DType::i32, Shape()).wait();
        };
        pass(parted, in);  // compiles
        device.synchronize();
        together();
        if (world.rank() == 0) {
          device.reset_peak_memory();
          held = device.memory().peak_bytes;
        }
        together();
        pass(parted, in);
        device.synchronize();
        together();
        if (world.rank() == 0) most = device.memory().peak_bytes;
        together();
      },
      device);
  return most - held;
}

TEST_P(SequenceParallelOnDevices, KeepsFewerActivations) {
  DeviceContext& device = heddle::device(GetParam());
  const nn::GptOptions o{.vocabulary = 16, .context = 64, .layers = 4, .heads = 2, .width = 64, .dropout = 0};
  const nn::Gpt whole = gpt(o, device);
  const uint64_t all = peak(whole, 8, false, device), parts = peak(whole, 8, true, device);
  RecordProperty("share", fmt::format("{:.3f}", static_cast<double>(parts) / static_cast<double>(all)));
  // The inputs of 2 norms a block, of which each of two ranks has half.
  const auto rows = static_cast<uint64_t>(8 * o.context * o.width) * sizeof(float);
  EXPECT_LE(parts + static_cast<uint64_t>(2 * o.layers) * rows, all);
}

HEDDLE_DEVICE_TESTS(SequenceParallelOnDevices);

}  // namespace
}  // namespace heddle::train
