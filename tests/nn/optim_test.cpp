// Optimizers against values stored from PyTorch (tools/parity/make_optimizer_values.py), their state, and their errors.
#include "heddle/nn/optim.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/philox.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

using nlohmann::json;

const std::vector<Shape> shapes = {Shape{2, 3}, Shape{4}}, matrices = {Shape{2, 3}, Shape{3, 2}};
const std::vector<Shape>& shapes_of(const json& spec) { return spec.at("optimizer") == "muon" ? matrices : shapes; }

// As values() of the script.
Tensor stored_value(uint32_t parameter, int step, DeviceContext& where, const Shape& shape) {
  std::vector<float> v(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = philox_uniform({3, parameter, static_cast<uint32_t>(step + 1), 0}, i) * 2 - 1;
  return Tensor::from_vector(v, shape, &where);
}

std::unique_ptr<nn::Optimizer> make_plain(const json& spec, const std::vector<Tensor>& parameters) {
  const json& o = spec.at("options");
  const std::string name = spec.at("optimizer");
  if (name == "sgd") {
    nn::SgdOptions options{.lr = o.at("lr"),
                           .momentum = o.value("momentum", 0.0),
                           .dampening = o.value("dampening", 0.0),
                           .weight_decay = o.value("weight_decay", 0.0),
                           .nesterov = o.value("nesterov", false)};
    return std::make_unique<nn::SGD>(parameters, options);
  }
  if (name == "rmsprop") {
    return std::make_unique<nn::RMSprop>(parameters, nn::RmsPropOptions{.lr = o.at("lr"),
                                                                        .alpha = o.value("alpha", 0.99),
                                                                        .eps = o.value("eps", 1e-8),
                                                                        .weight_decay = o.value("weight_decay", 0.0),
                                                                        .momentum = o.value("momentum", 0.0),
                                                                        .centered = o.value("centered", false)});
  }
  if (name == "adagrad") {
    return std::make_unique<nn::Adagrad>(parameters,
                                         nn::AdagradOptions{.lr = o.at("lr"),
                                                            .lr_decay = o.value("lr_decay", 0.0),
                                                            .eps = o.value("eps", 1e-10),
                                                            .weight_decay = o.value("weight_decay", 0.0),
                                                            .initial_sum = o.value("initial_accumulator_value", 0.0)});
  }
  if (name == "adafactor") {
    nn::AdafactorOptions options{.lr = o.at("lr"),
                                 .beta2_decay = o.value("beta2_decay", -0.8),
                                 .clip = o.value("d", 1.0),
                                 .weight_decay = o.value("weight_decay", 0.0)};
    if (o.contains("eps")) options.eps1 = o.at("eps")[0], options.eps2 = o.at("eps")[1];
    return std::make_unique<nn::Adafactor>(parameters, options);
  }
  if (name == "muon") {
    return std::make_unique<nn::Muon>(parameters, nn::MuonOptions{.lr = o.at("lr"),
                                                                  .momentum = o.value("momentum", 0.95),
                                                                  .weight_decay = o.value("weight_decay", 0.1),
                                                                  .nesterov = o.value("nesterov", true),
                                                                  .iterations = o.value("ns_steps", 5),
                                                                  .match_adam = o.contains("adjust_lr_fn")});
  }
  const std::vector<double> betas = o.value("betas", std::vector<double>{0.9, 0.999});
  if (name == "lamb") {
    return std::make_unique<nn::LAMB>(parameters, nn::LambOptions{.lr = o.at("lr"),
                                                                  .beta1 = betas[0],
                                                                  .beta2 = betas[1],
                                                                  .eps = o.value("eps", 1e-6),
                                                                  .weight_decay = o.value("weight_decay", 1e-2)});
  }
  nn::AdamOptions options{.lr = o.at("lr"),
                          .beta1 = betas[0],
                          .beta2 = betas[1],
                          .eps = o.value("eps", 1e-8),
                          .weight_decay = o.value("weight_decay", name == "adamw" ? 1e-2 : 0.0)};
  if (name == "lion") {
    return std::make_unique<nn::Lion>(parameters, nn::LionOptions{.lr = o.at("lr"),
                                                                  .beta1 = betas[0],
                                                                  .beta2 = o.contains("betas") ? betas[1] : 0.99,
                                                                  .weight_decay = o.value("weight_decay", 0.0)});
  }
  if (name == "adam") return std::make_unique<nn::Adam>(parameters, options);
  return std::make_unique<nn::AdamW>(parameters, options);
}

std::unique_ptr<nn::Optimizer> make(const json& spec, const std::vector<Tensor>& parameters) {
  auto optimizer = make_plain(spec, parameters);
  if (!spec.at("clip").is_null()) optimizer->set_clip_norm(spec.at("clip").get<double>());
  return optimizer;
}

json stored() {
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/nn/optimizer_values.json");
  return json::parse(file);
}

std::vector<Tensor> make_parameters(DeviceContext& where, const std::vector<Shape>& of = shapes) {
  std::vector<Tensor> parameters;
  for (uint32_t p = 0; p < 2; ++p) parameters.push_back(stored_value(p, -1, where, of[p]).set_requires_grad());
  return parameters;
}

// One step of the script's loop.
void advance(nn::Optimizer& optimizer, const std::vector<Tensor>& parameters, int step) {
  if (step == 3) optimizer.set_lr(optimizer.lr() * 0.5);
  for (uint32_t p = 0; p < 2; ++p) {
    Tensor parameter = parameters[p];
    parameter.zero_grad();
    if (p == 0 || step != 1) parameter.set_grad(stored_value(p, step, parameter.device(), parameter.shape()));
  }
  optimizer.step();
}

void expect_values(const std::vector<Tensor>& parameters, const json& expected) {
  for (size_t p = 0; p < 2; ++p) {
    const Values found = parameters[p].to_doubles();
    for (size_t i = 0; i < found.size(); ++i) {
      const double e = expected[p][i];
      ASSERT_NEAR(found[i], e, 1e-6 * (1 + std::abs(e))) << "parameter " << p << " element " << i;
    }
  }
}

class OptimOnDevice : public testing::TestWithParam<const char*> {};

TEST_P(OptimOnDevice, StepsLikePyTorch) {
  DeviceContext* where = nullptr;
  try {
    where = &device(GetParam());
  } catch (const DeviceUnavailable& error) {
    GTEST_SKIP() << error.what();
  }
  const json all = stored();
  ASSERT_EQ(all.at("cases").size(), 24u);
  for (const json& spec : all.at("cases")) {
    SCOPED_TRACE(spec.at("optimizer").get<std::string>() + " " + spec.at("options").dump());
    const std::vector<Tensor> parameters = make_parameters(*where, shapes_of(spec));
    const auto optimizer = make(spec, parameters);
    for (int step = 0; step < 6; ++step) {
      SCOPED_TRACE(step);
      advance(*optimizer, parameters, step);
      expect_values(parameters, spec.at("steps")[static_cast<size_t>(step)]);
    }
  }
}

// Saved after three steps into a new optimizer, the rest of the run is the same bit for bit.
TEST_P(OptimOnDevice, ResumesFromItsState) {
  DeviceContext* where = nullptr;
  try {
    where = &device(GetParam());
  } catch (const DeviceUnavailable& error) {
    GTEST_SKIP() << error.what();
  }
  const json all = stored();
  ASSERT_EQ(all.at("cases").size(), 24u);
  for (const json& spec : all.at("cases")) {
    SCOPED_TRACE(spec.dump().substr(0, 120));
    const std::vector<Tensor> parameters = make_parameters(*where, shapes_of(spec));
    const auto optimizer = make(spec, parameters);
    for (int step = 0; step < 3; ++step) advance(*optimizer, parameters, step);
    std::vector<Tensor> resumed;
    for (const Tensor& p : parameters)
      resumed.push_back(Tensor::from_vector(p.to_vector<float>(), p.shape(), where).set_requires_grad());
    const auto second = make(spec, resumed);
    second->load_state_dict(optimizer->state_dict());
    for (int step = 3; step < 6; ++step) {
      advance(*optimizer, parameters, step);
      advance(*second, resumed, step);
    }
    for (size_t p = 0; p < 2; ++p) EXPECT_EQ(parameters[p].to_bytes(), resumed[p].to_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OptimOnDevice, testing::Values("reference:0", "opencl:0", "vulkan:0", "cuda:0"),
                         [](const auto& param_info) {
                           const std::string id = param_info.param;
                           return id.substr(0, id.find(':'));
                         });

TEST(Optim, StateNames) {
  const std::vector<Tensor> parameters = make_parameters(reference());
  nn::Adam adam(parameters, 0.1);
  EXPECT_TRUE(adam.state_dict().empty());
  advance(adam, parameters, 1);  // the second parameter has no gradient in this one
  const nn::StateDict state = adam.state_dict();
  ASSERT_EQ(state.size(), 3u);
  EXPECT_EQ(state.at("0.step").item(), 1);
  EXPECT_EQ(state.at("0.step").dtype(), DType::i64);
  EXPECT_EQ(state.at("0.m").shape(), (Shape{2, 3}));
  EXPECT_TRUE(state.contains("0.v"));
}

TEST(Optim, StateErrors) {
  const std::vector<Tensor> parameters = make_parameters(reference());
  nn::Adam adam(parameters, 0.1);
  advance(adam, parameters, 0);
  nn::StateDict state = adam.state_dict();
  nn::SGD sgd(parameters, {.lr = 0.1, .momentum = 0.9});
  expect_error<ValueError>([&] { sgd.load_state_dict(state); },
                           {"[SGD]", "missing [0.momentum", "unexpected [0.m, 0.v"});
  state["0.m"] = f32({1, 2}, Shape{2});
  expect_error<ShapeError>([&] { adam.load_state_dict(state); }, {"[Adam]", "0.m", "(2)", "(2, 3)"});
}

TEST(Optim, ChangingTheRateKeepsTheGraph) {
  Tensor x = f32({1, 2}, Shape{2}).set_requires_grad();
  nn::SGD sgd({x}, 0.5);
  x.set_grad(f32({1, 1}, Shape{2}));
  sgd.step();
  sgd.set_lr(0.25);
  sgd.step();
  EXPECT_EQ(x.to_doubles(), (Values{0.25, 1.25}));
}

TEST(Optim, HistoryDoesNotGrow) {
  Tensor x = f32({1, 2}, Shape{2}).set_requires_grad();
  nn::Adam adam({x}, 0.1);
  for (int i = 0; i < 3; ++i) {
    backward(sum(x * x));
    adam.update();
    adam.zero_grad();
    eval_pending();
  }
  EXPECT_TRUE(x.node()->has_value());
  EXPECT_TRUE(x.node()->inputs.empty()) << "an evaluated parameter must not keep its past alive";
  EXPECT_TRUE(x.requires_grad());
}

TEST(Optim, HalfPrecisionParametersKeepFullState) {
  Tensor x = zeros(Shape{2}, DType::f16, &reference());
  x.set_requires_grad();
  nn::AdamW adam({x}, 0.5);
  backward(sum(x - 1));
  adam.step();
  EXPECT_EQ(x.dtype(), DType::f16);
  EXPECT_EQ(adam.state_dict().at("0.m").dtype(), DType::f32);
  EXPECT_NEAR(x.to_doubles()[0], -0.5, 1e-3);
}

TEST(Optim, ZeroGrad) {
  Tensor x = f32({1}, Shape{1}).set_requires_grad();
  nn::SGD sgd({x}, 0.1);
  backward(x * x);
  sgd.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  backward(x * x);
  sgd.step();
  sgd.zero_grad();
  const double trained = x.item();
  sgd.step();  // nothing to do
  EXPECT_EQ(x.item(), trained);
}

// A group's numbers are those of an optimizer of its own.
TEST(Optim, GroupsHaveTheirOwnNumbers) {
  const std::vector<Tensor> together = make_parameters(reference()), apart = make_parameters(reference());
  nn::AdamW both(together, nn::AdamOptions{.lr = 0.1, .weight_decay = 0.3});
  both.set_group({together[1]}, {.lr_scale = 0.5, .weight_decay = 0});
  nn::AdamW first({apart[0]}, nn::AdamOptions{.lr = 0.1, .weight_decay = 0.3}),
      second({apart[1]}, nn::AdamOptions{.lr = 0.05, .weight_decay = 0});
  for (int step = 0; step < 4; ++step) {
    advance(both, together, step);
    for (uint32_t p = 0; p < 2; ++p) {
      Tensor parameter = apart[p];
      parameter.zero_grad();
      if (p == 0 || step != 1) parameter.set_grad(stored_value(p, step, reference(), parameter.shape()));
    }
    if (step == 3) first.set_lr(0.05), second.set_lr(0.025);
    first.step();
    second.step();
  }
  for (size_t p = 0; p < 2; ++p) EXPECT_EQ(together[p].to_bytes(), apart[p].to_bytes()) << p;
  expect_error<ValueError>([&] { both.set_group({apart[0]}, {}); }, {"[AdamW]", "tensor 0", "no parameter"});
  expect_error<ValueError>([&] { both.set_group({together[0]}, {.lr_scale = -1}); }, {"lr_scale", "-1"});
}

TEST(Optim, MuonTakesMatricesAndMakesThemNearlyOrthogonal) {
  expect_error<ValueError>([&] { nn::Muon(make_parameters(reference())); }, {"[Muon]", "parameter 1", "(4)", "matrix"});
  Tensor w = f32(Values(12, 0.0), Shape{4, 3}).set_requires_grad();
  nn::Muon muon({w}, nn::MuonOptions{.lr = 1, .weight_decay = 0});
  const Tensor gradient = f32({3, 1, 0, 0, 2, 1, 1, 0, 5, 2, 2, 2}, Shape{4, 3});
  w.set_grad(gradient);
  muon.step();
  // The gradient's singular vectors; its singular values, over their norm, went five times through the paper's
  // polynomial. A tall step is sqrt(4 / 3) long.
  const auto [u, s, vh] = svd(gradient.to(DType::f64), false);
  const double norm = std::sqrt(sum(s * s).item());
  Values moved = s.to_doubles();
  for (double& value : moved) {
    value /= norm;
    for (int i = 0; i < 5; ++i) value = 3.4445 * value - 4.7750 * std::pow(value, 3) + 2.0315 * std::pow(value, 5);
    EXPECT_NEAR(value, 0.95, 0.27) << "nearly orthogonal";
  }
  const Tensor expected = matmul(u * Tensor::from_vector(moved, {1, 3}, &reference()), vh) * -std::sqrt(4.0 / 3.0);
  const Values got = w.to_doubles(), want = expected.to_doubles();
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(got[i], want[i], 2e-5) << i;
}

TEST(Optim, AdafactorKeepsRowsAndColumns) {
  const std::vector<Tensor> parameters = make_parameters(reference());
  nn::Adafactor adafactor(parameters);
  advance(adafactor, parameters, 0);
  const nn::StateDict state = adafactor.state_dict();
  EXPECT_EQ(state.at("0.v_rows").shape(), (Shape{2, 1}));
  EXPECT_EQ(state.at("0.v_columns").shape(), (Shape{1, 3}));
  EXPECT_EQ(state.at("1.v").shape(), (Shape{4}));
}

TEST(Optim, BadHyperparameters) {
  const std::vector<Tensor> p = make_parameters(reference());
  const double nan = std::nan("");
  expect_error<ValueError>([&] { nn::SGD(p, -0.1); }, {"[SGD]", "learning rate", "-0.1"});
  expect_error<ValueError>([&] { nn::SGD(p, nan); }, {"learning rate", "nan"});
  expect_error<ValueError>([&] { nn::SGD(p, INFINITY); }, {"learning rate", "inf"});
  expect_error<ValueError>([&] { nn::SGD(p, {.momentum = -1}); }, {"momentum"});
  expect_error<ValueError>([&] { nn::SGD(p, {.nesterov = true}); }, {"Nesterov"});
  expect_error<ValueError>([&] { nn::SGD(p, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}); }, {"Nesterov"});
  expect_error<ValueError>([&] { nn::Adam(p, {.beta1 = 1}); }, {"beta1", "1"});
  expect_error<ValueError>([&] { nn::Adam(p, {.beta2 = -0.1}); }, {"beta2"});
  expect_error<ValueError>([&] { nn::Adam(p, {.eps = nan}); }, {"eps"});
  expect_error<ValueError>([&] { nn::AdamW(p, {.weight_decay = -1}); }, {"[AdamW]", "weight_decay"});
  expect_error<ValueError>([&] { nn::Lion(p, {.beta1 = 1}); }, {"[Lion]", "beta1"});
  expect_error<ValueError>([&] { nn::Lion(p, {.weight_decay = nan}); }, {"[Lion]", "weight_decay"});
  expect_error<ValueError>([&] { nn::RMSprop(p, {.alpha = 1}); }, {"[RMSprop]", "alpha"});
  expect_error<ValueError>([&] { nn::Adagrad(p, {.initial_sum = -1}); }, {"[Adagrad]", "initial_sum"});
  expect_error<ValueError>([&] { nn::Adafactor(p, {.beta2_decay = 0.5}); }, {"[Adafactor]", "beta2_decay"});
  expect_error<ValueError>([&] { nn::Adafactor(p, {.clip = 0.5}); }, {"[Adafactor]", "clip"});
  expect_error<ValueError>([&] { nn::LAMB(p, {.beta2 = 1}); }, {"[LAMB]", "beta2"});
  expect_error<ValueError>([&] { nn::Muon({p[0]}, {.iterations = 0}); }, {"[Muon]", "iterations"});
  nn::Adam adam(p, 0.1);
  expect_error<ValueError>([&] { adam.set_clip_norm(0); }, {"[Adam]", "clip", "0"});
  expect_error<ValueError>([&] { adam.set_clip_norm(nan); }, {"nan"});
  expect_error<ValueError>([&] { adam.set_lr(-1); }, {"[Adam]", "-1"});
  EXPECT_EQ(adam.lr(), 0.1);
}

TEST(Optim, BadParameters) {
  Tensor x = f32({1}, Shape{1}).set_requires_grad();
  const Tensor i = Tensor::from_vector(std::vector<int32_t>{1}, Shape{1}, &reference());
  expect_error<ValueError>([&] { nn::SGD({x, x}, 0.1); }, {"0 and 1", "same"});
  expect_error<ValueError>([&] { nn::SGD({x * x}, 0.1); }, {"parameter 0", "leaf"});
  expect_error<ValueError>([&] { nn::SGD({x, i}, 0.1); }, {"parameter 1"});
  expect_error<ValueError>([&] { nn::SGD({Tensor()}, 0.1); }, {"parameter 0"});
}

}  // namespace
}  // namespace heddle::tests
