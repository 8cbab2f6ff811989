// Layers in parts over ranks against the same layers whole: losses and all gradients, in f64 on the reference device
// and in f32 on the others.
#include "heddle/nn/tensor_parallel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/distributed/collectives.h"
#include "heddle/distributed/shard_map.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/optim.h"
#include "tests/distributed/ranks_by_hand.h"
#include "tests/distributed/values_test.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::nn {
namespace {

using distributed::Mesh;
using distributed::shard_map;
using distributed::Spec;
using distributed::test::drawn;
using distributed::test::List;
using tests::expect_error;

class TensorParallel : public distributed::test::ValuesTest {};

TEST_P(TensorParallel, AnMlpIsTheWholeOne) {
  const Mesh mesh({{"dp", 2}, {"tp", 2}}, 4);
  const Tensor x = numbers({4, 3}, 1), w1 = numbers({6, 3}, 2), b1 = numbers({6}, 3), w2 = numbers({5, 6}, 4),
               b2 = numbers({5}, 5);
  const auto program = [](const List& in) {
    ColumnParallelLinear up(in[1], in[2], "tp");
    RowParallelLinear down(in[3], in[4], "tp");
    Tensor rows = in[0].detach();
    rows.set_requires_grad();
    const Tensor y = down(gelu(up(rows)));
    const Tensor loss = distributed::pmean(mean(square(y)), "dp");
    backward(loss);
    return List{loss, y, rows.grad(), up.weight.grad(), up.bias.grad(), down.weight.grad(), down.bias.grad()};
  };
  const List got = shard_map(
      program, mesh, {Spec{{"dp"}}, Spec{}, Spec{}, Spec{}, Spec{}},
      {Spec{}, Spec{{"dp"}}, Spec{{"dp"}}, Spec{{"tp"}}, Spec{{"tp"}}, Spec{{{}, "tp"}}, Spec{}})({x, w1, b1, w2, b2});

  Linear up(w1.detach(), b1.detach()), down(w2.detach(), b2.detach());
  Tensor rows = x.detach();
  rows.set_requires_grad();
  const Tensor y = down(gelu(up(rows)));
  const Tensor loss = mean(square(y));
  backward(loss);
  expect_same(got[0], loss, "loss");
  expect_same(got[1], y, "result");
  expect_same(got[2], rows.grad(), "gradient of the input");
  expect_same(got[3], up.weight.grad(), "gradient of the column layer's weight");
  expect_same(got[4], up.bias.grad(), "of its bias");
  expect_same(got[5], down.weight.grad(), "of the row layer's weight");
  expect_same(got[6], down.bias.grad(), "of its bias");
}

TEST_P(TensorParallel, AVocabularyIsTheWholeOne) {
  const Mesh mesh({{"tp", 3}}, 3);
  const Tensor table = numbers({9, 4}, 1), head = numbers({9, 4}, 2);
  const Tensor tokens = Tensor::from_vector(std::vector<int32_t>{0, 8, 3, -1, 4}, Shape{5}, &device());
  const Tensor targets = Tensor::from_vector(std::vector<int32_t>{2, 3, 8, 0, 5}, Shape{5}, &device());
  const auto program = [](const List& in) {
    VocabParallelEmbedding embed(in[0], "tp");
    ColumnParallelLinear project(in[1], {}, "tp");
    const Tensor h = embed(in[2]);
    const Tensor loss = vocab_parallel_cross_entropy(project(tanh(h)) * 30, in[3], "tp");
    backward(loss);
    return List{loss, h, embed.weight.grad(), project.weight.grad()};
  };
  const List got = shard_map(program, mesh, std::vector<Spec>(4),
                             {Spec{}, Spec{}, Spec{{"tp"}}, Spec{{"tp"}}})({table, head, tokens, targets});

  Tensor rows = table.detach(), weight = head.detach();
  rows.set_requires_grad();
  weight.set_requires_grad();
  const Tensor h = embedding(rows, tokens);
  const Tensor loss = cross_entropy(linear(tanh(h), weight, {}) * 30, targets);
  backward(loss);
  expect_same(got[0], loss, "loss");
  expect_same(got[1], h, "rows");
  expect_same(got[2], rows.grad(), "gradient of the table");
  expect_same(got[3], weight.grad(), "gradient of the projection");
}

// Three steps of Adam, whose states are parts as their parameters are; shared parameters stay equal on all ranks.
TEST_P(TensorParallel, TrainsAsTheWholeOne) {
  const Mesh mesh({{"dp", 2}, {"tp", 2}}, 4);
  const Tensor x = numbers({4, 3}, 1), w1 = numbers({6, 3}, 2), b1 = numbers({6}, 3), w2 = numbers({5, 6}, 4),
               b2 = numbers({5}, 5);
  const auto train = [](Module& up, Module& down, const Tensor& rows, const auto& over_rows) {
    std::vector<Tensor> parameters = up.parameters();
    for (const Tensor& parameter : down.parameters()) parameters.push_back(parameter);
    Adam adam(parameters, 0.01);
    std::vector<Tensor> losses;
    for (int step = 0; step < 3; ++step) {
      adam.zero_grad();
      const Tensor loss = over_rows(mean(square(down(gelu(up(rows))))));
      backward(loss);
      adam.step();
      losses.push_back(loss.detach());
    }
    return stack(losses);
  };
  const auto program = [&](const List& in) {
    ColumnParallelLinear up(in[1], in[2], "tp");
    RowParallelLinear down(in[3], in[4], "tp");
    const Tensor losses = train(up, down, in[0], [](const Tensor& loss) { return distributed::pmean(loss, "dp"); });
    return List{losses, up.weight, up.bias, down.weight, down.bias};
  };
  const List got = shard_map(program, mesh, {Spec{{"dp"}}, Spec{}, Spec{}, Spec{}, Spec{}},
                             {Spec{}, Spec{{"tp"}}, Spec{{"tp"}}, Spec{{{}, "tp"}}, Spec{}})({x, w1, b1, w2, b2});
  Linear up(w1.detach(), b1.detach()), down(w2.detach(), b2.detach());
  expect_same(got[0], train(up, down, x, [](const Tensor& loss) { return loss; }), "losses");
  expect_same(got[1], up.weight, "weight of the column layer");
  expect_same(got[2], up.bias, "its bias");
  expect_same(got[3], down.weight, "weight of the row layer");
  expect_same(got[4], down.bias, "its bias");
}

INSTANTIATE_TEST_SUITE_P(Devices, TensorParallel, testing::ValuesIn(heddle::test::value_devices()),
                         tests::device_test_name);

TEST(TensorParallelErrors, NameTheLayer) {
  const Mesh mesh({{"tp", 2}}, 2);
  DeviceContext& reference = heddle::device("reference:0");
  const Tensor odd = drawn({3, 3}, 1, DType::f64, reference), even = drawn({4, 4}, 1, DType::f64, reference);
  const auto run = [&](const Tensor& x, const auto& f) { shard_map(f, mesh, {Spec{}}, {Spec{}})({x}); };
  expect_error<ShapeError>(
      [&] { run(odd, [](const List& in) { return List{ColumnParallelLinear(in[0], {}, "tp")(in[0])}; }); },
      {"[ColumnParallelLinear] the 2 ranks along 'tp' do not divide axis 0 of (3, 3)"});
  expect_error<ShapeError>(
      [&] { run(even, [](const List& in) { return List{RowParallelLinear(in[0], {}, "tp")(in[0])}; }); },
      {"[RowParallelLinear] input (4, 4) does not end in 2"});
  expect_error<AxisError>(
      [&] { run(even, [](const List& in) { return List{ColumnParallelLinear(in[0], {}, "pp")(in[0])}; }); },
      {"[ColumnParallelLinear] the mesh tp=2 has no axis 'pp'"});
  expect_error<AxisError>([&] { VocabParallelEmbedding(even, "tp"); }, {"[VocabParallelEmbedding] there is no mesh"});
}

}  // namespace
}  // namespace heddle::nn
