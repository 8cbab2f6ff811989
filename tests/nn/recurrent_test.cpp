// Recurrent layers against values and gradients of PyTorch (recurrent_values.py), on every device; cells, dropout, what
// they refuse.
#include "heddle/nn/recurrent.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "tests/nn/support.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

using nn::Recurrent;
using nn::RecurrentOptions;
using Json = nlohmann::json;

void expect_close(const Tensor& got, const Json& want, const std::string& what) {
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size()) << what;
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], want[i].get<double>(), 2e-5 * (1 + std::abs(want[i].get<double>()))) << what << " " << i;
}

RecurrentOptions options_of(const Json& c, DeviceContext& d) {
  return {.layers = c.value("num_layers", int64_t{1}),
          .bidirectional = c.value("bidirectional", false),
          .batch_first = c.value("batch_first", false),
          .bias = c.value("bias", true),
          .projection = c.value("proj_size", int64_t{0}),
          .nonlinearity = c.value("nonlinearity", "tanh") == "relu" ? nn::Nonlinearity::relu : nn::Nonlinearity::tanh,
          .device = d};
}

std::unique_ptr<Recurrent> layer_of(const Json& c, int64_t in, int64_t hidden, const RecurrentOptions& options) {
  if (c["kind"] == "GRU") return std::make_unique<nn::GRU>(in, hidden, options);
  if (c["kind"] == "LSTM") return std::make_unique<nn::LSTM>(in, hidden, options);
  return std::make_unique<nn::RNN>(in, hidden, options);
}

// Parameters as waves, in their order, which is PyTorch's.
void fill(nn::Module& layer, DeviceContext& d) {
  double frequency = 0.7;
  for (auto& [name, parameter] : layer.named_parameters()) {
    Tensor shared = parameter;
    shared.assign(wave(shared.shape(), frequency, d));
    frequency += 0.3;
  }
}

void check(const Json& c, RecurrentOptions options, DeviceContext& d) {
  constexpr int64_t steps = 4, batch = 3, in = 2, hidden = 3;
  const std::unique_ptr<Recurrent> layer = layer_of(c, in, hidden, options);
  fill(*layer, d);
  std::vector<Tensor> inputs, first;
  const nn::NamedTensors named = layer->named_parameters();
  for (const auto& [name, parameter] : named) inputs.push_back(parameter);
  Tensor x = wave(options.batch_first ? Shape{batch, steps, in} : Shape{steps, batch, in}, 0.9, d);
  inputs.push_back(x.set_requires_grad());
  const int64_t count = options.layers * layer->directions();
  for (size_t k = 0; k < c["last"].size(); ++k) {
    first.push_back(wave({count, batch, k == 0 && options.projection > 0 ? options.projection : hidden},
                         1.3 + static_cast<double>(k), d));
    inputs.push_back(first.back().set_requires_grad());
  }
  const Recurrent::Result result =
      c.contains("lengths") ? layer->run(x, first, c["lengths"].get<std::vector<int64_t>>()) : layer->run(x, first);
  Tensor loss = sum(square(result.states));
  for (const Tensor& last : result.last) loss = loss + sum(last * wave(last.shape(), 0.5, d));
  const std::vector<Tensor> gradients = grad(loss, inputs);
  expect_close(result.states, c["states"], "states");
  EXPECT_NEAR(loss.item(), c["loss"].get<double>(), 1e-4);
  ASSERT_EQ(named.size(), c["gradients"].size());
  for (size_t k = 0; k < first.size(); ++k) expect_close(result.last[k], c["last"][k], "last");
  for (size_t k = 0; k < named.size(); ++k) expect_close(gradients[k], c["gradients"][named[k].first], named[k].first);
  expect_close(gradients[named.size()], c["x_gradient"], "x");
  for (size_t k = 0; k < first.size(); ++k)
    expect_close(gradients[named.size() + 1 + k], c["first_gradients"][k], "first");
}

TEST(Recurrent, AgreesWithPyTorch) {
  std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/tests/nn/recurrent_values.json");
  const Json cases = Json::parse(file);
  for (const std::string& id : test::value_devices()) {
    for (const Json& c : cases) {
      SCOPED_TRACE(id + " " + c["kind"].get<std::string>() + (c.contains("lengths") ? " with lengths" : ""));
      // The kernels of a step differ by kind; several layers and directions are the same ones again: all of that once,
      // on the reference.
      const bool plain = !c.contains("num_layers") || c["kind"] == "GRU";
      if (id != "reference:0" && !plain) continue;
      RecurrentOptions options = options_of(c, device(id));
      check(c, options, device(id));
      options.checkpoint = true;
      if (id == "reference:0") check(c, options, device(id));
    }
  }
}

// A cell over time is the layer; sequences without a batch; the default states are zeros.
TEST(Recurrent, CellsAndSingleSequences) {
  DeviceContext& d = reference();
  const auto compare = [&](nn::RecurrentCell&& cell, Recurrent&& layer, size_t states) {
    fill(cell, d);
    fill(layer, d);
    const Tensor x = wave({4, 2}, 0.8, d);
    std::vector<Tensor> state;
    for (int64_t t = 0; t < 4; ++t) state = cell.step(squeeze(slice(x, 0, {t, t + 1}), 0), state);
    const Recurrent::Result all = layer.run(x);
    EXPECT_EQ(all.states.shape(), (Shape{4, 3}));
    EXPECT_EQ(cell.kind(), layer.kind() + "Cell");
    ASSERT_EQ(state.size(), states);
    for (size_t k = 0; k < states; ++k) expect_close(squeeze(all.last[k], 0), state[k].to_doubles(), "last");
    const Tensor batch = wave({5, 2}, 0.3, d);
    EXPECT_EQ(cell.step(batch)[0].shape(), (Shape{5, 3}));
    EXPECT_EQ(cell(batch).to_doubles(),
              cell.step(batch, std::vector<Tensor>(states, zeros({5, 3}, DType::f32, &d)))[0].to_doubles());
  };
  compare(nn::RNNCell(2, 3, {.nonlinearity = nn::Nonlinearity::relu, .device = d}),
          nn::RNN(2, 3, {.nonlinearity = nn::Nonlinearity::relu, .device = d}), 1);
  compare(nn::GRUCell(2, 3, {.device = d}), nn::GRU(2, 3, {.device = d}), 1);
  compare(nn::LSTMCell(2, 3, {.bias = false, .device = d}), nn::LSTM(2, 3, {.bias = false, .device = d}), 2);
}

// All of what goes from layer to layer dropped: the second layer sees zeros. Not after the last one, and not when it
// does not train.
TEST(Recurrent, DropsBetweenLayers) {
  DeviceContext& d = reference();
  nn::GRU layer(2, 3, {.layers = 2, .dropout = 1, .device = d}), second(3, 3, {.device = d}),
      plain(2, 3, {.layers = 2, .device = d});
  fill(layer, d);
  fill(plain, d);
  for (auto& [name, parameter] : second.named_parameters()) {
    Tensor shared = parameter;
    shared.assign(layer.state_dict().at(name.substr(0, name.size() - 1) + "1"));
  }
  const Tensor x = wave({4, 2, 2}, 0.8, d);
  EXPECT_EQ(layer(x).to_doubles(), second(zeros({4, 2, 3}, DType::f32, &d)).to_doubles());
  layer.eval();
  EXPECT_EQ(layer(x).to_doubles(), plain(x).to_doubles());
}

// What a length says, also where it is 0: nothing behind it is read, the states stay.
TEST(Recurrent, Lengths) {
  DeviceContext& d = reference();
  nn::LSTM layer(2, 3, {.bidirectional = true, .device = d});
  fill(layer, d);
  const Tensor x = wave({4, 3, 2}, 0.8, d), first = wave({2, 3, 3}, 0.4, d);
  const Tensor hidden =
      where(reshape(arange(0, 4, 1, DType::f32, &d), {4, 1, 1}) < reshape(f32({4, 0, 2}, {3}, d), {1, 3, 1}), x, NAN);
  const Recurrent::Result all = layer.run(hidden, {first, first}, std::vector<int64_t>{4, 0, 2});
  for (const double v : all.states.to_doubles()) EXPECT_TRUE(std::isfinite(v));
  EXPECT_EQ(slice(all.last[0], 1, {1, 2}).to_doubles(), slice(first, 1, {1, 2}).to_doubles());
  EXPECT_EQ(slice(all.states, 1, {1, 2}).to_doubles(), Values(24, 0.0));
  const Tensor short_one = slice(slice(x, 1, {2, 3}), 0, {0, 2}), from = slice(first, 1, {2, 3});
  expect_close(slice(slice(all.states, 1, {2, 3}), 0, {0, 2}), layer.run(short_one, {from, from}).states.to_doubles(),
               "a sequence by itself");
}

// As many launches a step of time whatever the length.
TEST(Recurrent, LaunchesPerStep) {
  for (const std::string& id : test::kernel_devices()) {
    DeviceContext& d = device(id);
    nn::LSTM layer(4, 8, {.bidirectional = true, .device = d});
    const auto launches = [&](int64_t steps) {
      const Tensor y = layer.run(wave({steps, 2, 4}, 0.3, d), {}, std::vector<int64_t>{steps, 2}).states;
      const uint64_t before = d.counters().kernels;
      eval({y});
      return d.counters().kernels - before;
    };
    launches(3);  // first values of parameters
    const uint64_t few = launches(9), more = launches(14);
    EXPECT_EQ((more - few) / 5, 4u)
        << id << ": a product and the rest, for each direction";  // outside of the loop small copies are joined or not
  }
}

// The gradient of weights and biases is no work of a step of time: two launches forward, and back three or four, of the
// gates' gradient and its product with the weights. Two more where it is summed in the loop.
TEST(Recurrent, LaunchesPerStepOfTheGradient) {
  for (const std::string& id : test::kernel_devices()) {
    DeviceContext& d = device(id);
    nn::LSTM layer(4, 8, {.device = d});
    const auto launches = [&](int64_t steps) {
      const Tensor loss = sum(square(layer.run(wave({steps, 5, 4}, 0.3, d)).states));
      const std::vector<Tensor> gradients = grad(loss, layer.parameters());
      const uint64_t before = d.counters().kernels;
      eval(gradients);
      return d.counters().kernels - before;
    };
    launches(3);  // first values of parameters
    const uint64_t few = launches(9);
    EXPECT_LE((launches(14) - few) / 5, 6u) << id;
  }
}

TEST(Recurrent, Refuses) {
  DeviceContext& d = reference();
  expect_error<ValueError>([&] { nn::GRU(0, 5, {.device = d}); }, {"[GRU] in is 0; expected 1 to"});
  EXPECT_EQ(nn::GRU(1, 1, {.device = d})(zeros({2, 1, 1}, DType::f32, &d)).shape(), Shape({2, 1, 1}));
  expect_error<ValueError>([&] { nn::GRU(3, 5, {.layers = 0, .device = d}); }, {"[GRU] layers is 0; expected 1 to"});
  expect_error<ValueError>([&] { nn::GRU(3, 5, {.dropout = 1.5, .device = d}); }, {"[GRU] dropout is 1.5"});
  expect_error<ValueError>([&] { nn::GRU(3, 5, {.projection = 2, .device = d}); }, {"only an LSTM"});
  expect_error<ValueError>([&] { nn::LSTM(3, 5, {.projection = 5, .device = d}); }, {"narrower than hidden, 5"});
  nn::LSTM layer(3, 5, {.device = d});
  const Tensor x = zeros({4, 2, 3}, DType::f32, &d);
  expect_error<ShapeError>(
      [&] {
        layer(zeros({4, 2}, DType::f32, &d));
      },
      {"[LSTM] the sequence is (4, 2)", "(time, batch, 3)"});
  expect_error<ValueError>([&] { layer.run(x, {x}); }, {"[LSTM] 1 initial states; it has 2"});
  expect_error<ShapeError>([&] { layer.run(x, {x, x}); }, {"an initial state is (4, 2, 3)", "(1, 2, 5)"});
  expect_error<ValueError>(
      [&] {
        layer.run(x, {}, std::vector<int64_t>{4, 5});
      },
      {"[LSTM] a sequence is said to be 5 long; x has 4 steps"});
  expect_error<ShapeError>([&] { layer.run(x, {}, std::vector<int64_t>{4}); },
                           {"[LSTM] lengths are (1)", "2 sequences"});
  expect_error<DTypeError>([&] { layer.run(x, {}, zeros({2}, DType::f32, &d)); }, {"lengths must be i32 or i64"});
  nn::LSTMCell cell(3, 5, {.device = d});
  expect_error<ShapeError>([&] { cell.step(x); }, {"[LSTMCell] the input is (4, 2, 3)"});
  expect_error<ValueError>(
      [&] {
        cell.step(zeros({2, 3}, DType::f32, &d), {zeros({2, 5}, DType::f32, &d)});
      },
      {"[LSTMCell] 1 states; it has 2"});
}

}  // namespace
}  // namespace heddle::tests
