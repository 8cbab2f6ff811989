// Lora against PEFT's stored values, over packed weights against products in double precision, and its refusals.
#include "heddle/nn/lora.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/nn/models/parts.h"
#include "heddle/nn/nn.h"
#include "tests/nn/lora_support.h"
#include "tests/nn/support.h"
#include "tests/support/coverage.h"
#include "tests/support/device_test.h"
#include "tests/support/packed_blocks.h"

namespace heddle::tests {
namespace {

using Json = nlohmann::json;

const Json& stored_adapters() {
  static const Json all = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/nn/lora_values.json"));
  return all;
}

// lora_values.py's waves, by the place of a name among the sorted ones.
void fill(const nn::StateDict& state, double size) {
  const NoGradScope no_grad;
  size_t place = 0;
  for (const auto& [name, tensor] : state) {
    const double around = name.find("norm") != std::string::npos || name.find("magnitude") != std::string::npos ? 1 : 0;
    std::vector<float> wave;
    for (int64_t i = 0; i < tensor.numel(); ++i)
      wave.push_back(static_cast<float>(
          around + size * std::sin((0.37 + 0.11 * static_cast<double>(place)) * static_cast<double>(i + 1))));
    Tensor(tensor).assign(Tensor::from_vector(wave, tensor.shape(), &tensor.device()));
    ++place;
  }
}

void expect_near_most(const Tensor& found, const Values& expected, double error, const std::string& what) {
  const Values all = found.to_doubles();
  ASSERT_EQ(all.size(), expected.size()) << what;
  double most = 1;
  for (const double value : expected) most = std::max(most, std::abs(value));
  for (size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(all[i], expected[i], error * most) << what << " at " << i;
}

class LoraTest : public DeviceTest {
 protected:
  Tensor tokens() {
    std::vector<int32_t> flat;
    for (const Json& row : stored_adapters().at("tokens"))
      for (const int32_t token : row) flat.push_back(token);
    return Tensor::from_vector(flat, {2, 7}, &device());
  }
  nn::Llama model() {
    nn::Llama made(tiny, {.device = device()});
    fill(made.state_dict(), 0.3);
    made.eval();
    return made;
  }
  static Tensor loss(const Tensor& logits, const Tensor& tokens) {
    const Tensor before = slice(logits, 1, {.stop = -1});
    return cross_entropy(reshape(before, {12, 19}), reshape(slice(tokens, 1, {.start = 1}), {12}));
  }
};

TEST_P(LoraTest, IsPefts) {
  size_t number = 0;
  for (const Json& c : stored_adapters().at("cases")) {
    if (!takes_case(GetParam(), "", number++)) continue;
    const std::string name = c.at("name");
    nn::Llama llama = model();
    nn::Lora lora(llama, options_of(c));
    fill(lora.state_dict(), 0.4);
    const Tensor logits = llama(tokens());
    expect_near_most(logits, c.at("logits"), 1e-5, name);
    const Tensor lost = loss(logits, tokens());
    EXPECT_NEAR(lost.item(), c.at("loss").get<double>(), 1e-5);
    backward(lost);
    size_t count = 0;
    for (const auto& [path, p] : lora.named_parameters()) {
      const Json& gradients = c.at("gradients");
      const std::string theirs = gradients.contains(path) ? path : path + ".weight";
      ASSERT_TRUE(p.grad().defined()) << path;
      expect_near_most(p.grad(), gradients.at(theirs), 1e-5, name + ": " + path);
      EXPECT_EQ(p.shape().str(), Shape(c.at("saved").at(path).get<std::vector<int64_t>>()).str());
      ++count;
    }
    EXPECT_EQ(count, c.at("saved").size());
    for (const Tensor& p : llama.parameters()) EXPECT_FALSE(p.grad().defined());

    const std::string merged = c.at("merged").at("name");
    expect_near_most(lora.merged_state().at(merged), c.at("merged").at("values"), 1e-5, "merged state");
    lora.merge();
    expect_near_most(llama.state_dict().at(merged), c.at("merged").at("values"), 1e-5, "merged");
    expect_near_most(llama(tokens()), c.at("logits"), 1e-5, "merged");
  }
}

TEST_P(LoraTest, ChangesNothingAtFirstAndSwitchesOff) {
  const NoGradScope no_grad;  // what is kept for gradients decides what is fused, and adapters freeze the model
  nn::Llama llama = model();
  nn::Llama plain = model();  // its kernels are those of the moment: sizes that other tests had choose between two sets
  const Values before = plain(tokens()).to_doubles();
  for (const bool dora : {false, true}) {
    nn::Lora lora(llama, {.dora = dora, .targets = {"*_proj"}});
    EXPECT_EQ(lora.paths().size(), 14u);
    expect_near_most(llama(tokens()), before, 1e-5, "B is zero");
    for (const auto& [path, p] : lora.named_parameters()) {
      if (!path.ends_with("lora_A.weight")) continue;
      const Values a = p.to_doubles();
      const double most = *std::max_element(a.begin(), a.end()), bound = 1 / std::sqrt(static_cast<double>(p.dim(1)));
      EXPECT_LE(most, bound);
      EXPECT_GT(most, bound / 2);
    }
    fill(lora.state_dict(), 0.4);
    EXPECT_GT(std::abs(llama(tokens()).to_doubles()[0] - before[0]), 1e-3);
    lora.enable(false);
    EXPECT_EQ(llama(tokens()).to_doubles(), plain(tokens()).to_doubles());
  }
}

// A few compiled steps: the loss falls, and the base stays as it was.
TEST_P(LoraTest, IsTrainedByACompiledStep) {
  nn::Llama llama = model();
  const Values before = llama.state_dict().at("model.layers.0.self_attn.q_proj.weight").to_doubles();
  Generator generator{.seed = 3};
  nn::Lora lora(llama, {.rank = 4, .alpha = 8, .dropout = 0.05, .targets = {"*_proj"}, .generator = &generator});
  llama.train();
  nn::AdamW optimizer(lora.parameters(), {.lr = 0.02});
  const auto step = compile([&](const Tensor& text) {
    const Tensor lost = loss(llama(text), text);
    backward(lost);
    optimizer.step();
    optimizer.zero_grad();
    return lost;
  });
  const double first = step(tokens()).item();
  double last = first;
  for (int i = 0; i < 30; ++i) last = step(tokens()).item();
  EXPECT_LT(last, 0.9 * first);
  EXPECT_EQ(llama.state_dict().at("model.layers.0.self_attn.q_proj.weight").to_doubles(), before);
}

// y = W x + scale B A x and its gradients, with W's elements in double precision.
TEST_P(LoraTest, PackedWeightsAreTheirNumbers) {
  size_t number = 0;
  for (const GgmlType type : {GgmlType::q4_0, GgmlType::q8_0, GgmlType::q4_k}) {
    if (!takes_case(GetParam(), "", number++)) continue;
    for (const int64_t m : {2, 33}) {
      const int64_t in = 256, out = 19, rank = 3;
      const std::vector<uint8_t> bytes = test::random_blocks(type, out * in, 5);
      std::vector<float> w(static_cast<size_t>(out * in));
      dequantise(type, bytes, w);
      nn::Parts net("Net");
      nn::Projection layer(
          {Tensor::from_bytes(bytes.data(), bytes.size(), DType::u8, packed_shape({out, in}, type), &device()), type},
          {out, in});
      EXPECT_EQ(nn::packed_type_of(layer), type);
      net.add("layer", layer);
      nn::Lora lora(net, {.rank = rank, .alpha = 6, .targets = {"layer"}});
      fill(lora.state_dict(), 0.4);
      Tensor x = f32(Values(static_cast<size_t>(m * in), 0), {m, in}, device());
      fill({{"x", x}}, 1);
      x = x.detach().set_requires_grad();
      Tensor weights = zeros({m, out}, DType::f32, &device());  // of the results in the loss
      fill({{"a", weights}}, 1);
      backward(sum(layer(x) * weights));

      // The same in double precision.
      const nn::StateDict state = lora.state_dict();
      const auto wide = [](const Tensor& t) { return Tensor::from_vector(t.to_doubles(), t.shape(), &reference()); };
      const Tensor a = wide(state.at("base_model.model.layer.lora_A.weight")).set_requires_grad();
      const Tensor b = wide(state.at("base_model.model.layer.lora_B.weight")).set_requires_grad();
      const Tensor dense = Tensor::from_vector(std::vector<double>(w.begin(), w.end()), {out, in}, &reference());
      const Tensor given = wide(x).set_requires_grad();
      const Tensor y = matmul(given, transpose(dense)) + 2.0 * matmul(matmul(given, transpose(a)), transpose(b));
      backward(sum(y * wide(weights)));
      expect_near_most(layer(x), y.to_doubles(), 2e-5, "y");
      expect_near_most(x.grad(), given.grad().to_doubles(), 2e-5, "x");
      expect_near_most(state.at("base_model.model.layer.lora_A.weight").grad(), a.grad().to_doubles(), 2e-5, "A");
      expect_near_most(state.at("base_model.model.layer.lora_B.weight").grad(), b.grad().to_doubles(), 2e-5, "B");
      const Tensor merged = dense + 2.0 * matmul(b, a);
      expect_near_most(lora.merged_state().at("layer.weight"), merged.to_doubles(), 1e-5, "merged");
      expect_error<ValueError>([&] { lora.merge(); }, {"[Lora] layer is packed in", "merged_state()"});

      if (m > 2) continue;
      // DoRA, whose lengths come from products with packed blocks.
      lora.enable(false);
      nn::Lora dora(net, {.rank = rank, .alpha = 6, .dora = true, .targets = {"layer"}});
      fill(dora.state_dict(), 0.4);
      const nn::StateDict own = dora.state_dict();
      const Tensor both = dense + 2.0 * matmul(wide(own.at("base_model.model.layer.lora_B.weight")),
                                               wide(own.at("base_model.model.layer.lora_A.weight")));
      const Tensor turned = both / sqrt(sum(square(both), {1}, true)) *
                            unsqueeze(wide(own.at("base_model.model.layer.lora_magnitude_vector")), 1);
      expect_near_most(layer(x), matmul(given, transpose(turned)).to_doubles(), 2e-5, "dora");
      expect_near_most(dora.merged_state().at("layer.weight"), turned.to_doubles(), 2e-5, "dora merged");
    }
  }
}

// Rounding is a step: what flows back is as if it were not there.
TEST_P(LoraTest, RoundedInputsHaveAGradient) {
  const std::vector<uint8_t> bytes = test::random_blocks(GgmlType::q8_0, 5 * 64, 5);
  const Tensor blocks =
      Tensor::from_bytes(bytes.data(), bytes.size(), DType::u8, packed_shape({5, 64}, GgmlType::q8_0), &device());
  Values gradients[2];
  for (const bool rounds : {false, true}) {
    nn::Projection layer({blocks, GgmlType::q8_0, rounds}, {5, 64});
    Tensor x = zeros({3, 64}, DType::f32, &device());
    fill({{"x", x}}, 1);
    x = x.detach().set_requires_grad();
    backward(sum(layer(x)));
    gradients[rounds ? 1 : 0] = x.grad().to_doubles();
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

HEDDLE_DEVICE_TESTS(LoraTest);

TEST(Lora, AdaptsLinearLayersWithABias) {
  nn::Parts net("Net");
  nn::Linear layer(5, 3, {.device = reference()});
  net.add("layer", layer);
  nn::Lora lora(net, {.rank = 2, .alpha = 4, .targets = {"lay*"}});
  fill(lora.state_dict(), 0.4);
  const Tensor x = f32({1, -2, 3, 0.5, 4}, {1, 5});
  const Values y = layer(x).to_doubles();
  lora.merge();
  expect_near_most(layer(x), y, 1e-6, "merged");
  EXPECT_FALSE(layer.weight.requires_grad());
}

TEST(Lora, RefusesWhatCannotBeMeant) {
  nn::Llama llama(tiny, {.device = reference()});
  const auto refused = [&](const nn::LoraOptions& o, const char* why) {
    expect_error<ValueError>([&] { nn::Lora(llama, o); }, {why});
    for (const Tensor& p : llama.parameters()) EXPECT_TRUE(p.requires_grad());
  };
  refused({.rank = 0}, "[Lora] rank is 0");
  refused({.alpha = NAN}, "[Lora] alpha is nan");
  refused({.dropout = 1}, "[Lora] dropout is 1");
  refused({.targets = {}}, "[Lora] no targets");
  refused({.targets = {"*.q_proj", "*.query"}}, "fits '*.query'; there are model.embed_tokens");
}

}  // namespace
}  // namespace heddle::tests
