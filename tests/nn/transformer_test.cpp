// Attention and transformer layers against values and gradients of PyTorch (transformer_values.py); dropout,
// queries that see nothing, what they refuse.
#include "heddle/nn/transformer.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/parameter_options.h"
#include "tests/nn/support.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

using Json = nlohmann::json;
constexpr int64_t model_width = 6, heads = 2;

void expect_stored(const Tensor& got, const Json& want, const std::string& what) {
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size()) << what;
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], want[i].get<double>(), 3e-5 * (1 + std::abs(want[i].get<double>()))) << what << " " << i;
}

Tensor mask_of(const Json& masks, const char* name, DeviceContext& d) {
  if (!masks.contains(name)) return {};
  const Json& mask = masks[name];
  const auto sizes = mask["shape"].get<std::vector<int64_t>>();
  const Tensor values = f32(mask["values"].get<Values>(), Shape(std::span(sizes)), d);
  return mask["bool"] ? values != 0.0 : values;
}

nn::AttentionMasks masks_of(const Json& c, const char* name, DeviceContext& d) {
  const Json masks = c.value(name, Json::object());
  return {.attn_mask = mask_of(masks, "attn_mask", d),
          .key_padding_mask = mask_of(masks, "key_padding_mask", d),
          .is_causal = masks.value("is_causal", false)};
}

nn::TransformerOptions layer_of(const Json& c, DeviceContext& d) {
  return {.dim_feedforward = 7,
          .dropout = 0.4,  // eval() has none
          .activation = c.value("activation", "relu") == "gelu" ? nn::Activation::gelu : nn::Activation::relu,
          .layer_norm_eps = c.value("layer_norm_eps", 1e-5),
          .norm_first = c.value("norm_first", false),
          .bias = c.value("bias", true),
          .final_norm = true,
          .device = d};
}

// A layer of that kind, and its call.
struct Called {
  std::unique_ptr<nn::Module> module;
  std::function<nn::MultiheadAttention::Result(const std::vector<Tensor>& x)> call;
};

template <class M, class F>
Called called(std::unique_ptr<M> module, const F& run) {
  M* layer = module.get();
  return {std::move(module), [layer, run](const std::vector<Tensor>& x) { return run(*layer, x); }};
}

Called make(const Json& c, DeviceContext& d) {
  using Result = nn::MultiheadAttention::Result;
  const std::string kind = c["kind"];
  const nn::AttentionMasks masks = masks_of(c, "masks", d), other = masks_of(c, "memory_masks", d);
  const auto encode = [masks](auto& layer, const auto& x) { return Result{layer.run(x[0], masks), {}}; };
  const auto decode = [=](auto& layer, const auto& x) { return Result{layer.run(x[0], x[1], masks, other), {}}; };
  if (kind == "TransformerEncoderLayer")
    return called(std::make_unique<nn::TransformerEncoderLayer>(model_width, heads, layer_of(c, d)), encode);
  if (kind == "TransformerDecoderLayer")
    return called(std::make_unique<nn::TransformerDecoderLayer>(model_width, heads, layer_of(c, d)), decode);
  if (kind == "TransformerEncoder")
    return called(std::make_unique<nn::TransformerEncoder>(2, model_width, heads, layer_of(c, d)), encode);
  if (kind == "TransformerDecoder")
    return called(std::make_unique<nn::TransformerDecoder>(2, model_width, heads, layer_of(c, d)), decode);
  const nn::MultiheadAttentionOptions options{.bias = c.value("bias", true),
                                              .dropout = 0.4,
                                              .kdim = c.value("kdim", int64_t{0}),
                                              .vdim = c.value("vdim", int64_t{0}),
                                              .device = d};
  return called(std::make_unique<nn::MultiheadAttention>(model_width, heads, options),
                [masks](auto& layer, const auto& x) {
                  const Tensor &k = x.size() == 1 ? x[0] : x[1], &v = x.size() == 1 ? x[0] : x[2];
                  const Result result = layer.run_with_weights(x[0], k, v, masks);
                  EXPECT_EQ(layer.run(x[0], k, v, masks).to_doubles(), result.output.to_doubles());
                  return result;
                });
}

void check(const Json& c, DeviceContext& d) {
  const Called made = make(c, d);
  made.module->eval();
  std::vector<Tensor> inputs, tracked;
  std::vector<std::string> names;
  for (auto& [name, parameter] : made.module->named_parameters()) {
    Tensor shared = parameter;
    shared.assign(wave(shared.shape(), 0.7 + 0.3 * static_cast<double>(names.size()), d));
    names.push_back(name);
    tracked.push_back(shared);
  }
  ASSERT_EQ(names, c["names"].get<std::vector<std::string>>());
  for (const Json& shape : c["inputs"]) {
    const auto sizes = shape.get<std::vector<int64_t>>();
    inputs.push_back(wave(Shape(std::span(sizes)), 0.9 + 0.4 * static_cast<double>(inputs.size()), d));
    tracked.push_back(inputs.back().set_requires_grad());
  }
  const auto [output, weights] = made.call(inputs);
  Tensor loss = sum(output * wave(output.shape(), 0.5, d));
  if (weights.defined()) loss = loss + sum(weights * wave(weights.shape(), 1.1, d));
  const std::vector<Tensor> gradients = grad(loss, tracked);
  expect_stored(output, c["output"], "output");
  if (weights.defined()) expect_stored(weights, c["weights"], "weights");
  for (size_t k = 0; k < names.size(); ++k) expect_stored(gradients[k], c["gradients"][names[k]], names[k]);
  for (size_t k = 0; k < inputs.size(); ++k)
    expect_stored(gradients[names.size() + k], c["input_gradients"][k], "input " + std::to_string(k));
}

TEST(Transformer, AgreesWithPyTorch) {
  std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/tests/nn/transformer_values.json");
  const Json cases = Json::parse(file);
  ASSERT_EQ(cases.size(), 13u);
  for (const std::string& id : test::value_devices()) {
    for (size_t i = 0; i < cases.size(); ++i) {
      // What the layers are made of is tested on every device elsewhere; here both kinds of mask once, the rest on the
      // reference.
      if (id != "reference:0" && i != 3) continue;
      SCOPED_TRACE(id + " case " + std::to_string(i) + " " + cases[i]["kind"].get<std::string>());
      check(cases[i], device(id));
    }
  }
}

// In training each dropout takes its part, equal seeds give equal results, and eval() drops nothing.
TEST(Transformer, DropsInTrainingOnly) {
  DeviceContext& d = reference();
  Generator seeds{3}, numbers{5};
  nn::TransformerEncoderLayer layer(model_width, heads,
                                    {.dim_feedforward = 7, .dropout = 0.5, .device = d, .generator = &seeds});
  nn::MultiheadAttention attention(model_width, heads, {.dropout = 0.5, .device = d, .generator = &numbers});
  const Tensor x = wave({2, 3, model_width}, 0.9, d);
  const auto again = [&](nn::Module& module, Generator& generator) {
    generator.seed = 11, generator.offset = 0;
    return module(x).to_doubles();
  };
  for (auto& [module, generator] :
       std::vector<std::pair<nn::Module*, Generator*>>{{&layer, &seeds}, {&attention, &numbers}}) {
    const Values first = again(*module, *generator);
    EXPECT_EQ(again(*module, *generator), first);
    EXPECT_NE((*module)(x).to_doubles(), first);
    module->eval();
    EXPECT_EQ((*module)(x).to_doubles(), (*module)(x).to_doubles());
    EXPECT_NE((*module)(x).to_doubles(), first);
  }
}

// First values are PyTorch's: Xavier of the joined weight, zero biases, and each layer of a stack has its own.
TEST(Transformer, FirstValues) {
  DeviceContext& d = reference();
  manual_seed(1);
  const nn::MultiheadAttention attention(8, 2, {.device = d});
  const double bound = std::sqrt(6.0 / (8 + 24));
  const Values weight = attention.in_proj_weight.to_doubles();
  const double largest = std::abs(*std::ranges::max_element(weight, {}, [](double v) { return std::abs(v); }));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.9 * bound);
  EXPECT_EQ(attention.in_proj_bias.to_doubles(), Values(24, 0));
  EXPECT_EQ(attention.out_proj.bias.to_doubles(), Values(8, 0));
  const nn::TransformerEncoder stack(2, model_width, heads, {.dim_feedforward = 7, .device = d});
  const nn::StateDict state = stack.state_dict();
  EXPECT_NE(state.at("layers.0.linear1.weight").to_doubles(), state.at("layers.1.linear1.weight").to_doubles());
  EXPECT_FALSE(state.contains("norm.weight"));
}

// A query that sees no key: its heads give zeros, so that out_proj's bias is left; gradients are finite.
TEST(Transformer, QueriesThatSeeNothing) {
  DeviceContext& d = reference();
  nn::MultiheadAttention attention(model_width, heads, {.device = d});
  attention.out_proj.bias.assign(wave({model_width}, 0.4, d));
  Tensor x = wave({1, 3, model_width}, 0.9, d);
  x.set_requires_grad();
  const Tensor hidden = f32({0, 0, 0, 1, 1, 1, 0, 1, 0}, {3, 3}, d) != 0.0;
  const Tensor y = attention.run(x, x, x, {.attn_mask = hidden});
  const Values all = y.to_doubles(), bias = attention.out_proj.bias.to_doubles();
  for (size_t i = 0; i < bias.size(); ++i) EXPECT_NEAR(all[model_width + i], bias[i], 1e-6);
  for (const double v : grad(sum(square(y)), {x})[0].to_doubles()) EXPECT_TRUE(std::isfinite(v));
}

TEST(Transformer, RefusesWhatDoesNotFit) {
  DeviceContext& d = reference();
  expect_error<ValueError>([&] { nn::MultiheadAttention(6, 4, {.device = d}); }, {"4 heads", "embed_dim 6"});
  expect_error<ValueError>([&] { nn::MultiheadAttention(0, 1, {.device = d}); }, {"embed_dim is 0"});
  expect_error<ValueError>([&] { nn::MultiheadAttention(6, 0, {.device = d}); }, {"num_heads is 0"});
  expect_error<ValueError>([&] { nn::MultiheadAttention(6, 2, {.kdim = -1, .device = d}); }, {"kdim is -1"});
  expect_error<ValueError>([&] { nn::MultiheadAttention(6, 2, {.dropout = 1, .device = d}); }, {"dropout is 1"});
  expect_error<ValueError>([&] { nn::TransformerEncoderLayer(6, 4, {.device = d}); }, {"4 heads"});
  expect_error<ValueError>([&] { nn::TransformerDecoderLayer(6, 2, {.dim_feedforward = 0, .device = d}); },
                           {"[TransformerDecoderLayer]", "dim_feedforward is 0"});
  expect_error<ValueError>([&] { nn::TransformerEncoder(0, 6, 2, {.device = d}); }, {"num_layers is 0"});
  nn::MultiheadAttention attention(6, 2, {.kdim = 4, .device = d});
  const Tensor q = zeros({2, 3, 6}, DType::f32, &d), k = zeros({2, 5, 4}, DType::f32, &d);
  const Tensor v = zeros({2, 5, 6}, DType::f32, &d);
  expect_error<ShapeError>([&] { attention.run(q, v, v); }, {"keys are", "expected (batch, length, 4)"});
  expect_error<ShapeError>([&] { attention.run(zeros({3, 6}, DType::f32, &d), k, v); }, {"queries are"});
  expect_error<ShapeError>([&] { attention.run(q, k, v, {.is_causal = true}); }, {"is_causal", "5 and 3"});
  expect_error<ShapeError>(
      [&] {
        attention.run(q, k, v, {.attn_mask = zeros({5, 3}, DType::f32, &d)});
      },
      {"attn_mask", "(3, 5)", "4"});
  expect_error<ShapeError>(
      [&] {
        attention.run(q, k, v, {.key_padding_mask = zeros({2, 3}, DType::boolean, &d)});
      },
      {"key_padding_mask", "(2, 5)"});
  expect_error<DTypeError>(
      [&] {
        attention.run(q, k, v, {.attn_mask = zeros({3, 5}, DType::i32, &d)});
      },
      {"attn_mask is i32"});
}

}  // namespace
}  // namespace heddle::tests
