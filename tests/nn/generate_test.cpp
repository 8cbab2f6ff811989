// Decoders against whole forward passes, sampling against its distribution, beams against all sequences.
#include "heddle/nn/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/inspect/profile.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

using Tokens = std::vector<int32_t>;

nn::Gpt small_gpt(DeviceContext& where, int64_t context = 13, int64_t vocabulary = 17, double scale = 8) {
  Generator generator{.seed = 3};
  nn::Gpt model({.vocabulary = vocabulary, .context = context, .layers = 2, .heads = 3, .width = 24},
                {.device = where, .generator = &generator});
  for (Tensor& p : model.parameters())
    p.assign(p * scale + uniform(p.shape(), -0.1, 0.1, &where, &generator));  // far from uniform logits
  model.eval();
  return model;
}

nn::RecurrentLm small_recurrent(DeviceContext& where, nn::RecurrentCellKind cell) {
  Generator generator{.seed = 3};
  nn::RecurrentLm model({.vocabulary = 17, .width = 9, .hidden = 14, .layers = 2, .cell = cell, .dropout = 0.3},
                        {.device = where, .generator = &generator});
  for (Tensor& p : model.parameters()) p.assign(p * 6);
  model.eval();
  return model;
}

Tensor token_rows(int64_t rows, int64_t length, DeviceContext& where) {
  Tokens all(static_cast<size_t>(rows * length));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i * i * 7 + i) % 17;
  return Tensor::from_vector(all, {rows, length}, &where);
}

void expect_close(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const Values a = found.to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 2e-4 * (1 + std::abs(b[i]))) << what << ", element " << i;
}

class GenerateTest : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& where() const { return device(GetParam()); }

  // read() of a few tokens, then step by step, must give what the model makes of all of them at each place; twice, and
  // after the rows were swapped.
  void check_decoder(nn::Module& model, nn::Decoder& decoder, const std::string& what) {
    const NoGradScope no_grad;
    constexpr int64_t rows = 3, length = 11;
    const Tensor all = token_rows(rows, length, where());
    const Tensor expected = model(all);
    const auto column = [&](int64_t t) { return squeeze(slice(all, 1, {.start = t, .stop = t + 1}), 1); };
    const auto logits = [&](int64_t t) { return squeeze(slice(expected, 1, {.start = t, .stop = t + 1}), 1); };
    for (const int64_t prompt : {5, 1}) {
      expect_close(decoder.read(slice(all, 1, {.start = 0, .stop = prompt})), logits(prompt - 1), what);
      for (int64_t t = prompt; t < length; ++t)
        expect_close(decoder.step(column(t)), logits(t), fmt::format("{} step {}", what, t));
    }
    const Tensor order = Tensor::from_vector<int32_t>({2, 0, 0}, {rows}, &where());
    decoder.read(slice(all, 1, {.start = 0, .stop = 4}));
    decoder.reorder(order);
    expect_close(decoder.step(take(column(4), order, 0)), take(logits(4), order, 0), what + " reordered");
  }
};

TEST_P(GenerateTest, DecodersAreTheModelOnePositionAtATime) {
  nn::Gpt gpt = small_gpt(where());
  check_decoder(gpt, *nn::cached_decoder(gpt, 3), "cached Gpt");
  check_decoder(gpt, *nn::uncached_decoder(gpt, 3), "uncached Gpt");
  for (const auto cell : {nn::RecurrentCellKind::lstm, nn::RecurrentCellKind::gru}) {
    nn::RecurrentLm model = small_recurrent(where(), cell);
    check_decoder(model, *nn::cached_decoder(model, 3), "recurrent");
  }
}

TEST_P(GenerateTest, GreedyTextIsThatOfWholePasses) {
  const nn::Gpt gpt = small_gpt(where());
  const Tokens prompt = {1, 5, 2};
  for (const bool compiled : {true, false}) {
    const Tokens cached = nn::generate(*nn::cached_decoder(gpt), prompt,
                                       {.tokens = 40, .temperature = 0, .compiled = compiled});  // three contexts long
    EXPECT_EQ(cached.size(), 40u);
    EXPECT_EQ(cached,
              nn::generate(*nn::uncached_decoder(gpt), prompt, {.tokens = 40, .temperature = 0, .compiled = false}));
  }
}

TEST_P(GenerateTest, NoNewPlansPerPosition) {
  if (GetParam() == "reference:0") GTEST_SKIP() << "the reference device has no plans";
  const nn::Gpt gpt = small_gpt(where(), 40);
  const auto decoder = nn::cached_decoder(gpt);
  DeviceCounters early, late;
  int made = 0;
  nn::generate(*decoder, Tokens{1, 2, 3}, {.tokens = 36, .temperature = 0.9, .top_k = 5}, [&](int32_t) {
    ++made;
    if (made == 6) early = where().counters();
    if (made == 36) late = where().counters();
    return true;
  });
  ASSERT_EQ(made, 36);
  EXPECT_EQ(late.kernels_compiled, early.kernels_compiled);
  EXPECT_EQ(late.steps_compiled, early.steps_compiled);
  EXPECT_GE(late.compiled_replays - early.compiled_replays, 25u);
}

// A token costs a row of each layer's cache: nothing of a step writes as much as a cache has.
TEST_P(GenerateTest, AStepWritesOneRow) {
  if (GetParam() == "reference:0") GTEST_SKIP() << "the reference device has no kernels";
  const nn::Gpt gpt = small_gpt(where(), 200);
  const auto decoder = nn::cached_decoder(gpt, 2);
  const NoGradScope no_grad;
  eval({decoder->read(token_rows(2, 4, where()))});
  Profiler profiler;
  eval({decoder->step(Tensor::from_vector<int32_t>({3, 4}, {2}, &where()))});
  size_t updates = 0;
  for (const KernelRow& row : profiler.stop().rows()) {
    EXPECT_LT(row.facts.written_bytes, 2 * 4 * 24 * 4 + 1) << row.facts.ops;  // the widest values of a layer
    if (row.facts.ops.find("copy_rows") != std::string::npos) updates += row.count;
  }
  EXPECT_EQ(updates, 2u);  // one a layer, for keys and values together
}

// Weights and cache in 16 bits, all else in f32: what differs from the f32 model of the same rounded weights is the
// rounding of queries, keys and values.
TEST_P(GenerateTest, SixteenBits) {
  for (const DType low : {DType::f16, DType::bf16}) {
    // Weights of a size at which no softmax is all or nothing, which would turn a rounded score into another token.
    nn::Gpt gpt = small_gpt(where(), 13, 17, 2), rounded = small_gpt(reference(), 13, 17, 2);
    gpt.to(low);
    for (Tensor& p : rounded.parameters()) p.assign(cast(cast(p, low), DType::f32));
    EXPECT_EQ(gpt.make_cache().layers[0].dtype(), low);
    const NoGradScope no_grad;
    const Tensor tokens = token_rows(2, 9, where()), expected = rounded(token_rows(2, 9, reference()));
    const auto decoder = nn::cached_decoder(gpt, 2);
    Tensor found = decoder->read(slice(tokens, 1, {.stop = 4}));
    for (int64_t t = 4; t <= 9; ++t) {
      EXPECT_EQ(found.dtype(), DType::f32);
      const Tensor want = squeeze(slice(expected, 1, {.start = t - 1, .stop = t}), 1);
      const double largest = max(abs(want)).item(), error = max(abs(found.to(reference()) - want)).item();
      EXPECT_LT(error, (low == DType::f16 ? 0.004 : 0.03) * largest) << name_of(low) << ", " << t << " tokens";
      if (t < 9) found = decoder->step(squeeze(slice(tokens, 1, {.start = t, .stop = t + 1}), 1));
    }
  }
}

TEST_P(GenerateTest, SeedsRepeat) {
  const nn::Gpt gpt = small_gpt(where());
  const auto draw = [&](uint64_t seed) {
    return nn::generate(*nn::cached_decoder(gpt), Tokens{4}, {.tokens = 12, .temperature = 2, .seed = seed});
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST_P(GenerateTest, SamplesFollowTheDistribution) {
  constexpr int64_t rows = 4000;
  const Values logits = {1, 2, -1, 0.5, 2.5, -3, 0};
  const Tensor x = broadcast_to(f32(logits, {1, 7}, where()), {rows, 7});
  // Expected shares by hand: only tokens that `kept` holds.
  const auto check = [&](const nn::Sampling& how, const std::vector<size_t>& kept) {
    Generator generator{.seed = 11};
    std::map<int, double> share;
    for (const double token : nn::sample(x, how, &generator).to_doubles()) share[static_cast<int>(token)] += 1.0 / rows;
    double total = 0;
    for (const size_t k : kept) total += std::exp(logits[k] / how.temperature);
    EXPECT_LE(share.size(), kept.size());
    for (const size_t k : kept)
      EXPECT_NEAR(share[static_cast<int>(k)], std::exp(logits[k] / how.temperature) / total, 0.03) << k;
  };
  check({}, {0, 1, 2, 3, 4, 5, 6});
  check({.temperature = 0.5}, {0, 1, 2, 3, 4, 5, 6});
  check({.temperature = 2, .top_k = 3}, {4, 1, 0});
  check({.top_k = 100}, {0, 1, 2, 3, 4, 5, 6});
  check({.top_p = 0.7}, {4, 1});  // 0.479 + 0.291 reach 0.7
  check({.top_p = 0.4}, {4});
  check({.top_k = 2, .top_p = 0.99}, {4, 1});
  EXPECT_EQ(nn::sample(f32({1, 5, 2, 9, 0, 0}, {2, 3}, where()), {.temperature = 0}).to_doubles(), (Values{1, 0}));
}

TEST_P(GenerateTest, BeamsFindTheBestOfAllSequences) {
  const nn::Gpt gpt = small_gpt(where(), 8, 4);
  const Tokens prompt = {1, 3};
  // All 4^3 continuations by whole forward passes.
  std::vector<nn::Beam> all;
  nn::Gpt model = gpt;
  const NoGradScope no_grad;
  for (int32_t code = 0; code < 64; ++code) {
    const Tokens tokens = {1, 3, code / 16, code / 4 % 4, code % 4};
    const Values logs = log_softmax(model(Tensor::from_vector(tokens, {1, 5}, &where()))).to_doubles();
    double score = 0;
    for (size_t i = 2; i < 5; ++i) score += logs[(i - 1) * 4 + static_cast<size_t>(tokens[i])];
    all.push_back({{tokens.begin() + 2, tokens.end()}, score / 3});
  }
  std::ranges::sort(all, [](const nn::Beam& a, const nn::Beam& b) { return a.score > b.score; });
  const auto found =
      nn::beam_search(*nn::cached_decoder(gpt, 16), prompt, {.beams = 16, .tokens = 3});  // wide enough to lose nothing
  ASSERT_EQ(found.size(), 16u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(found[i].tokens, all[i].tokens) << i;
    EXPECT_NEAR(found[i].score, all[i].score, 1e-4);
  }
  const Tokens greedy = nn::generate(*nn::cached_decoder(gpt), prompt, {.tokens = 3, .temperature = 0});
  EXPECT_EQ(nn::beam_search(*nn::cached_decoder(gpt, 1), prompt, {.beams = 1, .tokens = 3})[0].tokens, greedy);
}

TEST_P(GenerateTest, BeamsEndWithAStopToken) {
  const nn::Gpt gpt = small_gpt(where(), 8, 4);
  const auto found = nn::beam_search(*nn::cached_decoder(gpt, 3), Tokens{1}, {.beams = 3, .tokens = 6, .stop = {2}});
  ASSERT_FALSE(found.empty());
  for (const nn::Beam& beam : found) EXPECT_EQ(std::ranges::count(beam.tokens, 2), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, GenerateTest, testing::ValuesIn(test::value_devices()), device_test_name);

TEST(Generate, StopsWhereItIsTold) {
  const nn::Gpt gpt = small_gpt(reference());
  const auto decoder = nn::cached_decoder(gpt);
  const Tokens all = nn::generate(*decoder, Tokens{1}, {.tokens = 10, .temperature = 0});
  const auto first = std::ranges::find(all, all[3]) - all.begin();
  const Tokens stopped = nn::generate(*decoder, Tokens{1}, {.tokens = 10, .temperature = 0, .stop = {all[3]}});
  EXPECT_EQ(stopped, Tokens(all.begin(), all.begin() + first));
  int heard = 0;
  EXPECT_EQ(
      nn::generate(*decoder, Tokens{1}, {.tokens = 10, .temperature = 0}, [&](int32_t) { return ++heard < 4; }).size(),
      4u);
  EXPECT_TRUE(nn::generate(*decoder, Tokens{1}, {.tokens = 0}).empty());
  EXPECT_TRUE(nn::beam_search(*decoder, Tokens{1}, {.beams = 1, .tokens = 0}).at(0).tokens.empty());
}

// Positions begin again: what follows a full context is what follows its last half alone.
TEST(Generate, AFullContextBeginsAgainWithItsLastHalf) {
  nn::Gpt gpt = small_gpt(reference());
  Tokens window = {1, 5, 2}, expected;
  const NoGradScope no_grad;
  for (int made = 0; made < 30; ++made) {
    if (window.size() > 13) window.erase(window.begin(), window.end() - 6);
    const auto length = static_cast<int64_t>(window.size());
    const Tensor logits = slice(gpt(Tensor::from_vector(window, {1, length}, &reference())), 1, {.start = length - 1});
    expected.push_back(static_cast<int32_t>(argmax(reshape(logits, {17}), 0).item()));
    window.push_back(expected.back());
  }
  EXPECT_EQ(nn::generate(*nn::cached_decoder(gpt), Tokens{1, 5, 2}, {.tokens = 30, .temperature = 0}), expected);
}

// A model that knows what comes next says the same in 16 bits.
TEST(Generate, GreedyTextOfATrainedModelIsThatOfF32) {
  nn::Gpt gpt = small_gpt(reference(), 24);
  nn::AdamW optimizer(gpt.parameters(), {.lr = 3e-3});
  const Tensor text = token_rows(1, 18, reference());  // 18 tokens by heart
  const Tensor x = slice(text, 1, {.stop = 17}), y = reshape(slice(text, 1, {.start = 1}), {17});
  for (int step = 0; step < 40; ++step) {
    optimizer.zero_grad();
    backward(mean(cross_entropy(reshape(gpt(x), {17, 17}), y)));
    optimizer.step();
  }
  const std::vector<double> all = text.to_doubles();
  const Tokens prompt(all.begin(), all.begin() + 3), rest(all.begin() + 3, all.end());
  const auto greedy = [&] { return nn::generate(*nn::cached_decoder(gpt), prompt, {.tokens = 15, .temperature = 0}); };
  EXPECT_EQ(greedy(), rest);
  gpt.to(DType::f16);
  EXPECT_EQ(greedy(), rest);
  gpt.to(DType::bf16);
  EXPECT_EQ(greedy(), rest);
}

TEST(Generate, RecurrentModelsInSixteenBits) {
  const nn::RecurrentLm full = small_recurrent(reference(), nn::RecurrentCellKind::lstm);
  nn::RecurrentLm low = small_recurrent(reference(), nn::RecurrentCellKind::lstm);
  low.to(DType::bf16);
  const NoGradScope no_grad;
  const Tensor tokens = token_rows(1, 6, reference());
  EXPECT_LT(max(abs(nn::cached_decoder(low)->read(tokens) - nn::cached_decoder(full)->read(tokens))).item(), 0.1);
}

TEST(Generate, LongPromptsAreReadFromTheirEnd) {
  const nn::Gpt gpt = small_gpt(reference());
  Tokens prompt(30);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i % 17);
  const auto decoder = nn::cached_decoder(gpt);
  EXPECT_EQ(nn::readable(*decoder, prompt).size(), 13u);
  const Tokens end(prompt.end() - 13, prompt.end());
  EXPECT_EQ(nn::generate(*decoder, prompt, {.tokens = 20, .temperature = 0}),
            nn::generate(*decoder, end, {.tokens = 20, .temperature = 0}));
}

TEST(LanguageModel, IsMadeAgainFromItsDescription) {
  const NoGradScope no_grad;
  nn::Gpt gpt = small_gpt(reference());
  const nn::LanguageModel again(nn::describe(gpt.options()), reference());
  again.module().load_state_dict(gpt.state_dict());
  EXPECT_EQ(again.vocabulary(), 17);
  const Tensor x = token_rows(2, 5, reference());
  EXPECT_EQ(again.module()(x).to_doubles(), gpt(x).to_doubles());
  again.module().train();
  EXPECT_EQ(again.module()(x).to_doubles(), gpt(x).to_doubles()) << "dropout is no part of a description";
  nn::RecurrentLm gru = small_recurrent(reference(), nn::RecurrentCellKind::gru);
  const nn::LanguageModel same(nn::describe(gru.options()), reference());
  same.module().load_state_dict(gru.state_dict());
  EXPECT_EQ(same.module()(x).to_doubles(), gru(x).to_doubles());
  expect_error<ValueError>([&] { same.decoder({.cache = false}); }, {"no cache to do without"});
  expect_error<ValueError>([] { nn::LanguageModel("{}"); }, {"not a description"});
  expect_error<ValueError>([] { nn::LanguageModel(R"({"type": "rwkv"})"); }, {"known: gpt, llama, recurrent"});
  const char* large =
      R"({"type": "recurrent", "vocabulary": 16777217, "width": 1, "hidden": 1, "layers": 1, "cell": "gru", "tied": false})";
  expect_error<ValueError>([&] { nn::LanguageModel(large, reference()); },
                           {"vocabulary is 16777217, expected 1 to 16777216"});
}

TEST(Generate, Refusals) {
  nn::Gpt gpt = small_gpt(reference());
  const auto decoder = nn::cached_decoder(gpt);
  const auto with = [&](const nn::GenerateOptions& options) {
    return [&, options] { nn::generate(*decoder, Tokens{1}, options); };
  };
  expect_error<ValueError>([&] { nn::generate(*decoder, Tokens{}, {}); }, {"the prompt is empty"});
  expect_error<ValueError>(
      [&] {
        nn::generate(*decoder, Tokens{3, 17}, {});
      },
      {"token 17 of the prompt is not among the model's 17"});
  expect_error<ValueError>(with({.temperature = -1}), {"temperature is -1"});
  expect_error<ValueError>(with({.temperature = std::nan("")}), {"temperature"});
  expect_error<ValueError>(with({.top_k = -2}), {"top_k is -2"});
  expect_error<ValueError>(with({.top_p = 0}), {"top_p is 0"});
  expect_error<ValueError>(with({.tokens = -1}), {"-1 tokens"});
  expect_error<ValueError>([&] { nn::beam_search(*decoder, Tokens{1}, {.beams = 1, .tokens = 20}); },
                           {"do not fit the model's context of 13"});
  expect_error<ValueError>([&] { nn::beam_search(*decoder, Tokens{1}, {.beams = 0}); }, {"0 beams"});
  expect_error<ShapeError>([&] { decoder->read(token_rows(1, 14, reference())); },
                           {"expected (1, length) with a length of 1 to 13"});
  expect_error<ShapeError>([&] { decoder->read(token_rows(2, 3, reference())); }, {"expected (1, length)"});
  gpt.train();
  expect_error<ValueError>([&] { nn::cached_decoder(gpt); }, {"training mode", "call eval()"});
}

}  // namespace
}  // namespace heddle::tests
