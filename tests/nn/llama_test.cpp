// Llama against its definition in double precision, one position at a time, and by description.
#include "heddle/nn/models/llama.h"

#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/random/random.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"
#include "tests/nn/tiny_llama.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

nn::LlamaOptions tied() {
  nn::LlamaOptions o = tiny;
  o.tied = true;
  return o;
}

nn::Llama make(const nn::LlamaOptions& options, DeviceContext& where) {
  Generator generator{.seed = 5};
  nn::Llama model(options, {.device = where, .generator = &generator});
  for (Tensor& p : model.parameters())
    p.assign(p * 8 + uniform(p.shape(), -0.2, 0.2, &where, &generator));  // far from uniform logits
  model.eval();
  return model;
}

// The definition, token by token, over rows of numbers.
class Definition {
 public:
  Definition(const nn::LlamaOptions& o, const nn::StateDict& state) : o_(o) {
    for (const auto& [name, tensor] : state) weights_[name] = tensor.to_doubles();
  }

  // Logits of each position of a text.
  std::vector<Values> run(const std::vector<int32_t>& tokens) const {
    std::vector<Values> x;
    for (const int32_t token : tokens) {
      const Values& table = weights_.at("model.embed_tokens.weight");
      x.emplace_back(table.begin() + token * o_.width, table.begin() + (token + 1) * o_.width);
    }
    for (int64_t i = 0; i < o_.layers; ++i) layer(x, "model.layers." + std::to_string(i) + ".");
    for (Values& row : x)
      row = product(norm(row, "model.norm.weight"), o_.tied ? "model.embed_tokens.weight" : "lm_head.weight");
    return x;
  }

 private:
  Values product(const Values& x, const std::string& name) const {
    const Values& w = weights_.at(name);
    Values y(w.size() / x.size());
    for (size_t n = 0; n < y.size(); ++n) {
      for (size_t k = 0; k < x.size(); ++k) y[n] += x[k] * w[n * x.size() + k];
    }
    return y;
  }

  Values norm(const Values& x, const std::string& name) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    Values y = x;
    for (size_t i = 0; i < y.size(); ++i)
      y[i] *= weights_.at(name)[i] / std::sqrt(squares / static_cast<double>(x.size()) + o_.eps);
    return y;
  }

  void turn(Values& heads, size_t position) const {
    const auto size = static_cast<size_t>(o_.width / o_.heads), half = size / 2;
    for (size_t h = 0; h < heads.size(); h += size) {
      for (size_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(o_.rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(size));
        const double a = heads[h + i], b = heads[h + half + i];
        heads[h + i] = a * std::cos(angle) - b * std::sin(angle);
        heads[h + half + i] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }

  // What head h of a query sees of the positions up to its own.
  void attend(const Values& query, const std::vector<Values>& keys, const std::vector<Values>& values, size_t last,
              size_t h, Values& out) const {
    const auto size = static_cast<size_t>(o_.width / o_.heads);
    const size_t from = h / static_cast<size_t>(o_.heads / o_.key_heads) * size;
    Values weight(last + 1);
    double total = 0;
    for (size_t t = 0; t <= last; ++t) {
      double score = 0;
      for (size_t i = 0; i < size; ++i) score += query[h * size + i] * keys[t][from + i];
      total += weight[t] = std::exp(score / std::sqrt(static_cast<double>(size)));
    }
    for (size_t t = 0; t <= last; ++t) {
      for (size_t i = 0; i < size; ++i) out[h * size + i] += weight[t] / total * values[t][from + i];
    }
  }

  void layer(std::vector<Values>& x, const std::string& path) const {
    std::vector<Values> queries, keys, values;
    for (size_t t = 0; t < x.size(); ++t) {
      const Values in = norm(x[t], path + "input_layernorm.weight");
      queries.push_back(product(in, path + "self_attn.q_proj.weight"));
      keys.push_back(product(in, path + "self_attn.k_proj.weight"));
      values.push_back(product(in, path + "self_attn.v_proj.weight"));
      turn(queries.back(), t);
      turn(keys.back(), t);
    }
    for (size_t t = 0; t < x.size(); ++t) {
      Values seen(static_cast<size_t>(o_.width));
      for (size_t h = 0; h < static_cast<size_t>(o_.heads); ++h) attend(queries[t], keys, values, t, h, seen);
      add(x[t], product(seen, path + "self_attn.o_proj.weight"));
      const Values in = norm(x[t], path + "post_attention_layernorm.weight");
      Values inner = product(in, path + "mlp.gate_proj.weight");
      const Values up = product(in, path + "mlp.up_proj.weight");
      for (size_t i = 0; i < inner.size(); ++i) inner[i] *= up[i] / (1 + std::exp(-inner[i]));
      add(x[t], product(inner, path + "mlp.down_proj.weight"));
    }
  }

  static void add(Values& x, const Values& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  nn::LlamaOptions o_;
  std::map<std::string, Values> weights_;
};

const std::vector<int32_t> first_text{3, 14, 7, 7, 0, 18, 5, 11, 2}, second_text{1, 4, 9, 16, 6, 17, 13, 12, 15};

void expect_near(const Tensor& found, const std::vector<Values>& expected, size_t from = 0) {
  const Values all = found.to_doubles();
  const size_t width = expected[0].size();
  for (size_t t = 0; t < expected.size(); ++t) {
    for (size_t i = 0; i < width; ++i)
      ASSERT_NEAR(all[(from + t) * width + i], expected[t][i], 3e-4 * (1 + std::abs(expected[t][i]))) << t << ", " << i;
  }
}

class LlamaTest : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& where() const { return device(GetParam()); }
  Tensor texts() const {
    std::vector<int32_t> all = first_text;
    all.insert(all.end(), second_text.begin(), second_text.end());
    return Tensor::from_vector(all, {2, static_cast<int64_t>(first_text.size())}, &where());
  }
};

TEST_P(LlamaTest, IsItsDefinition) {
  for (const nn::LlamaOptions& options : {tiny, tied()}) {
    nn::Llama model = make(options, where());
    const Definition definition(options, model.state_dict());
    const NoGradScope no_grad;
    const Tensor logits = model(texts());
    expect_near(logits, definition.run(first_text));
    expect_near(logits, definition.run(second_text), first_text.size());
  }
}

TEST_P(LlamaTest, OnePositionAtATimeIsTheWhole) {
  nn::Llama model = make(tiny, where());
  const Definition definition(tiny, model.state_dict());
  const std::vector<Values> first = definition.run(first_text), second = definition.run(second_text);
  const auto column = [&](int64_t t) { return squeeze(slice(texts(), 1, {.start = t, .stop = t + 1}), 1); };
  for (const bool cached : {true, false}) {
    const nn::DecoderPtr decoder = cached ? nn::cached_decoder(model, 2, 12) : nn::uncached_decoder(model, 2);
    EXPECT_EQ(decoder->context(), cached ? 12 : 16);
    for (const int64_t prompt : {5, 1}) {
      Tensor logits = decoder->read(slice(texts(), 1, {.start = 0, .stop = prompt}));
      for (int64_t t = prompt; t < 9; ++t) {
        expect_near(logits, {first[static_cast<size_t>(t - 1)], second[static_cast<size_t>(t - 1)]});
        logits = decoder->step(column(t));
      }
      expect_near(logits, {first[8], second[8]});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LlamaTest, testing::ValuesIn(test::value_devices()), device_test_name);

TEST(Llama, HasHuggingFacesNames) {
  const nn::StateDict state = nn::Llama(tiny, {.device = reference()}).state_dict();
  EXPECT_EQ(state.size(), 3u + 2 * 9);
  for (const char* name : {"model.embed_tokens.weight", "model.layers.1.self_attn.q_proj.weight",
                           "model.layers.0.mlp.gate_proj.weight", "model.layers.1.input_layernorm.weight",
                           "model.layers.1.post_attention_layernorm.weight", "model.norm.weight", "lm_head.weight"})
    EXPECT_TRUE(state.contains(name)) << name;
  EXPECT_EQ(state.at("model.layers.0.self_attn.k_proj.weight").shape(), (Shape{12, 24}));
  EXPECT_FALSE(nn::Llama(tied(), {.device = reference()}).state_dict().contains("lm_head.weight"));
}

TEST(Llama, IsTrained) {
  nn::Llama model(tied(), {.device = reference()});
  backward(mean(square(model(Tensor::from_vector<int32_t>({1, 2, 3}, {1, 3}, &reference())))));
  for (const auto& [name, p] : model.named_parameters()) EXPECT_TRUE(p.grad().defined()) << name;
}

TEST(Llama, ComesBackFromItsDescription) {
  const nn::LanguageModel model(nn::describe(tiny), reference());
  EXPECT_EQ(model.description(), nn::describe(tiny));
  EXPECT_EQ(model.vocabulary(), 19);
  EXPECT_EQ(model.module().state_dict().size(), 21u);
  EXPECT_EQ(model.decoder({.context = 8})->context(), 8);
}

TEST(Llama, RefusesWhatDoesNotFit) {
  const auto refused = [](auto change, const char* why) {
    nn::LlamaOptions o = tiny;
    change(o);
    expect_error<ValueError>([&] { nn::Llama(o, {.device = reference()}); }, {why});
  };
  refused([](auto& o) { o.heads = 5; }, "[Llama] 5 heads do not divide the width 24");
  refused([](auto& o) { o.key_heads = 3; }, "[Llama] 3 heads of keys do not divide 4 heads");
  refused([](auto& o) { o.heads = o.key_heads = 8; }, "turn pairs");
  refused([](auto& o) { o.eps = -1; }, "eps is -1");
  refused([](auto& o) { o.rope_base = 0; }, "rope_base is 0");
  refused([](auto& o) { o.layers = -1; }, "layers is -1");
  nn::Llama model(tiny, {.device = reference()});
  expect_error<ShapeError>([&] { model(zeros({1, 17}, DType::i32, &reference())); }, {"a length of at most 16"});
}

}  // namespace
}  // namespace heddle::tests
