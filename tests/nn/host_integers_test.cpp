// Whole numbers of the host at the ends of i64 through layers, models, schedules, optimizers and generation.
#include "tests/support/host_integers.h"

#include <algorithm>
#include <functional>

#include "heddle/autograd/autograd.h"
#include "heddle/nn/activations.h"
#include "heddle/nn/nn.h"

namespace heddle::host_integers {
namespace {

constexpr int64_t wide = int64_t{1} << 20;  // beside it no extreme is a size that memory holds

TEST(HostIntegers, SizesOfLayers) {
  const auto conv = [](int64_t in, int64_t out, std::vector<int64_t> kernel, int64_t groups = 1) {
    return nn::Conv2d(in, out, std::move(kernel), {.groups = groups, .device = dev()});
  };
  const auto lstm = [](int64_t in, int64_t hidden, int64_t layers = 1, int64_t projection = 0) {
    return nn::LSTM(in, hidden, {.layers = layers, .projection = projection, .device = dev()});
  };
  expect_calls({
      {"Linear", no_number, [](int64_t v) { nn::Linear(v, wide, {.device = dev()}); }},
      {"Linear", no_number, [](int64_t v) { nn::Linear(wide, v, {.device = dev()}); }},
      {"Conv2d", no_number, [=](int64_t v) { conv(v, wide, {3}); }},
      {"Conv2d", no_number, [=](int64_t v) { conv(wide, v, {3}); }},
      {"Conv2d", no_number,
       [=](int64_t v) {
         conv(wide, 2, {v, 1});
       }},
      {"Conv2d", no_number,
       [=](int64_t v) {
         conv(2, 2, {1, v});
       }},
      {"Conv2d", no_number, [=](int64_t v) { conv(4, 4, {3}, v); }},
      {"ConvTranspose1d", no_number, [](int64_t v) { nn::ConvTranspose1d(v, wide, {3}, {.device = dev()}); }},
      {"Embedding", no_number, [](int64_t v) { nn::Embedding(v, wide, {.device = dev()}); }},
      {"Embedding", no_number, [](int64_t v) { nn::Embedding(wide, v, {.device = dev()}); }},
      {"EmbeddingBag", no_number,
       [](int64_t v) { nn::EmbeddingBag(v, wide, {.mode = BagMode::sum, .device = dev()}); }},
      {"LSTM", no_number, [=](int64_t v) { lstm(v, 4); }},
      {"LSTM", no_number, [=](int64_t v) { lstm(4, v); }},
      {"LSTM", no_number, [=](int64_t v) { lstm(1, 2, v); }},
      {"LSTM", no_number, [=](int64_t v) { lstm(1, 2, 1, v); }},
      {"LSTM", no_number,
       [=](int64_t v) {
         lstm(4, 4).run(zeros({3, 1, 4}, DType::f32, &dev()), {}, std::vector<int64_t>{v});
       }},
      {"GRUCell", no_number, [](int64_t v) { nn::GRUCell(v, 4, {.device = dev()}); }},
      {"GRUCell", no_number, [](int64_t v) { nn::GRUCell(4, v, {.device = dev()}); }},
      {"group_norm", no_number,
       [](int64_t v) {
         nn::GroupNorm(v, 4, {.device = dev()})(grid({1, 4, 2}));
       }},
      {"TopK", no_number,
       [](int64_t v) {
         nn::TopK(v, dev()).add(grid({2, 3}), whole({1, 2}));
       }},
      {"accumulate", no_number,
       [](int64_t v) {
         const Tensor many = expand(line(1), {v > 0 ? v : 3});
         nn::accumulate({.parts = v}, [](const std::vector<Tensor>& x) { return mean(x[0]); }, {many});
       }},
  });
}

TEST(HostIntegers, SizesOfNorms) {
  const auto large = [](int64_t v) { return v > 0 ? std::max(v, p62) : v; };  // 2^32 channels fit some machines
  expect_calls({
      {"LayerNorm", no_number, [=](int64_t v) { nn::LayerNorm(std::max(v, p62), {.device = dev()}); }},
      {"RMSNorm", no_number, [=](int64_t v) { nn::RMSNorm(large(v), {.eps = 1e-5, .device = dev()}); }},
      {"GroupNorm", no_number, [=](int64_t v) { nn::GroupNorm(1, large(v), {.device = dev()}); }},
      {"BatchNorm", no_number, [=](int64_t v) { nn::BatchNorm(large(v), {.device = dev()}); }},
  });
}

// Initial values are made on the host.
TEST(HostIntegers, InitialValuesThatNoHostHolds) {
  Tensor large = zeros({most, 1}, DType::f32, &dev());
  EXPECT_THROW(nn::init::ones(large), OutOfMemory);
  EXPECT_THROW(nn::init::xavier_uniform(large), OutOfMemory);
  Tensor none = zeros({0, p62, 8}, DType::f32, &dev());
  EXPECT_THROW(nn::init::kaiming_uniform(none), ShapeError);
}

TEST(HostIntegers, SizesOfModels) {
  const auto resnet = [](const nn::ResNetOptions& o) { nn::ResNet(o, {.device = dev()}); };
  const auto lenet = [](const nn::LeNetOptions& o) { nn::LeNet(o, {.device = dev()}); };
  const auto unet = [](const nn::UNetOptions& o) { nn::UNet(o, {.device = dev()}); };
  const auto vit = [](const nn::VitOptions& o) { nn::Vit(o, {.device = dev()}); };
  const auto gpt = [](const nn::GptOptions& o) { nn::Gpt(o, {.device = dev()}); };
  const auto mobile = [](const nn::InvertedResiduals& stage, int64_t last = 8) {
    nn::MobileNetV2({.classes = 2, .width = 0.1, .stages = {stage}, .first = 8, .last = last}, {.device = dev()});
  };
  const auto lm = [](const nn::RecurrentLmOptions& o) { nn::RecurrentLm(o, {.device = dev()}); };
  expect_calls({
      {"", no_number, [](int64_t v) { nn::Mlp({.in = wide, .hidden = {v}}, {.device = dev()}); }},
      {"", no_number, [](int64_t v) { nn::Cnn({.channels = wide, .widths = {v}}, {.device = dev()}); }},
      {"", no_number, [=](int64_t v) { lenet({.height = v, .stages = {2}}); }},
      {"", no_number, [=](int64_t v) { lenet({.height = v, .width = v, .stages = {2}}); }},
      {"", no_number, [=](int64_t v) { resnet({.blocks = {v}, .width = 1, .classes = 1}); }},
      {"", no_number,
       [=](int64_t v) {
         resnet({.blocks = {1, 1}, .bottleneck = true, .width = v});
       }},
      {"", no_number, [=](int64_t) { resnet({.blocks = std::vector<int64_t>(70, 1), .width = 1}); }},
      {"", no_number,
       [=](int64_t v) {
         mobile({1, 8, v, 1});
       }},
      {"", no_number,
       [=](int64_t v) {
         mobile({v, 8, 1, 1});
       }},
      {"", no_number,
       [=](int64_t v) {
         mobile({2, v, 1, 1});
       }},
      {"", no_number,
       [=](int64_t v) {
         mobile({1, 8, 1, 1}, v > 0 ? v : most);
       }},
      {"", no_number, [=](int64_t v) { unet({.width = v, .groups = 1, .time = true}); }},
      {"", no_number,
       [=](int64_t v) {
         unet({.width = 2, .multipliers = {1, v}, .groups = 1});
       }},
      {"", no_number, [=](int64_t v) { unet({.width = 8, .groups = v}); }},
      {"", no_number,
       [=](int64_t v) { vit({.size = v, .patch = 1, .layers = 1, .heads = 1, .width = 4, .mlp_width = 4}); }},
      {"", no_number,
       [=](int64_t v) { vit({.size = 4, .patch = 2, .layers = v, .heads = 1, .width = 4, .mlp_width = 4}); }},
      {"", no_number,
       [=](int64_t v) { vit({.size = 4, .patch = 2, .layers = 1, .heads = 1, .width = v, .mlp_width = 4}); }},
      {"", no_number, [=](int64_t v) { gpt({.vocabulary = 4, .context = 4, .layers = v, .heads = 1, .width = 4}); }},
      {"", no_number, [=](int64_t v) { gpt({.vocabulary = 4, .context = v, .layers = 1, .heads = 1, .width = 4}); }},
      {"", no_number, [=](int64_t v) { gpt({.vocabulary = 4, .context = 4, .layers = 1, .heads = 1, .width = v}); }},
      {"", no_number, [=](int64_t v) { gpt({.vocabulary = 4, .context = 4, .layers = 1, .heads = v, .width = 4}); }},
      {"", no_number, [=](int64_t v) { lm({.vocabulary = v, .width = wide, .hidden = 4}); }},
      {"", no_number, [=](int64_t v) { lm({.vocabulary = 4, .width = 4, .hidden = v}); }},
      {"", no_number, [](int64_t v) { nn::Vae({.in = 4, .hidden = {4}, .latent = v}, {.device = dev()}); }},
      {"Vae", no_number,
       [](int64_t v) {
         nn::Vae({.in = 4, .hidden = {4}, .latent = 1 << 10}, {.device = dev()}).sample(v > 0 ? most : v);
       }},
  });
}

// A schedule before its first update gives what the first one has, and after its last one stays where it is.
TEST(HostIntegers, Schedules) {
  namespace s = nn::schedule;
  using Make = std::function<nn::Schedule(int64_t)>;
  const std::vector<std::pair<const char*, Make>> table = {
      {"step", [](int64_t v) { return s::step(0.5, v); }},
      {"linear", [](int64_t v) { return s::linear(0.5, v, 0.25, 1); }},
      {"polynomial", [](int64_t v) { return s::polynomial(0.5, v, 2); }},
      {"cosine", [](int64_t v) { return s::cosine(0.5, v); }},
      {"cosine_restarts", [](int64_t v) { return s::cosine_restarts(0.5, v); }},
      {"cosine_restarts", [](int64_t v) { return s::cosine_restarts(0.5, v, 3); }},
      {"cosine_restarts", [](int64_t v) { return s::cosine_restarts(0.5, 3, v); }},
      {"one_cycle", [](int64_t v) { return s::one_cycle(0.5, v); }},
      {"cyclical", [](int64_t v) { return s::cyclical(0.1, 0.5, v); }},
      {"cyclical", [](int64_t v) { return s::cyclical(0.1, 0.5, v, v); }},
      {"cyclical", [](int64_t v) { return s::cyclical(0.1, 0.5, 4, v); }},
      {"warmup", [](int64_t v) { return s::warmup(v, s::constant(0.5), 0.1); }},
      {"sequence",
       [](int64_t v) {
         return s::sequence({{s::constant(0.25), v}, {s::cyclical(0.1, 0.5, 4), v}});
       }},
  };
  std::vector<int64_t> updates = extremes;
  updates.insert(updates.end(), {-1, 0, 1, 2});
  std::vector<Call> calls;
  for (const auto& [name, make] : table) {
    calls.push_back({"", above_zero, [&, f = make](int64_t v) {
                       const nn::Schedule schedule = f(v);
                       for (const int64_t n : updates) {
                         const double lr = schedule(n);
                         EXPECT_TRUE(lr >= 0 && lr <= 0.5) << lr << " at " << n;
                         EXPECT_TRUE(n > 1 || lr == schedule(1)) << n;
                       }
                     }});
  }
  expect_calls(calls);
  EXPECT_EQ(s::multi_step(1, {0, p32, most - 1}, 0.5)(most), 0.125);
  EXPECT_EQ(s::exponential(1, 0.5)(least), 1);
  EXPECT_EQ(s::warmup(0, s::constant(0.5))(least), 0.5);
  EXPECT_NEAR(s::cyclical(0, 1, most, most)(most), 1, 1e-9);
  EXPECT_NEAR(s::cosine_restarts(1, 3, most)(4), 1, 1e-9);  // the second cycle's first
}

TEST(HostIntegers, CountsOfObservations) {
  const auto observe = [](const nn::PlateauOptions& options, const nn::Plateau::State& from) {
    nn::Plateau plateau(1, options);
    plateau.set_state(from);
    for (int i = 0; i < 3; ++i) EXPECT_LE(plateau.observe(1), 1);
  };
  expect_calls({
      {"Plateau", above_zero, [=](int64_t v) { observe({.patience = v}, {.lr = 1, .best = 0}); }},
      {"Plateau", above_zero, [=](int64_t v) { observe({.cooldown = v}, {.lr = 1, .best = 0}); }},
      {"Plateau", above_zero, [=](int64_t v) { observe({.patience = most}, {.lr = 1, .best = 0, .bad = v}); }},
      {"Plateau", above_zero, [=](int64_t v) { observe({}, {.lr = 1, .best = 0, .bad = 1, .cooling = v}); }},
      // Counted on the device in 32 bits.
      {"LossScale", no_number, [](int64_t v) { nn::LossScale({.interval = v, .device = dev()}); }},
  });
}

// Counts of updates out of a file.
TEST(HostIntegers, CountsOfUpdates) {
  const auto number = [](int64_t v) { return Tensor::from_vector(std::vector<int64_t>{v}, Shape{}, &dev()); };
  const auto counted = up_to(int64_t{1} << 53);
  expect_calls({
      {"SGD", counted,
       [=](int64_t v) {
         Tensor p = line(2).set_requires_grad();
         nn::SGD sgd({p}, nn::SgdOptions{.lr = 0.1, .momentum = 0.5});
         sgd.load_state_dict({{"0.step", number(v)}, {"0.momentum", zeros({2}, DType::f32, &dev())}});
         backward(sum(p));
         sgd.step();
         EXPECT_EQ(sgd.state_dict().at("0.step").to_vector<int64_t>()[0], v + 1);
       }},
      {"ExponentialAverage", counted,
       [=](int64_t v) {
         nn::ExponentialAverage average({line(2)}, 0.5);
         average.load_state_dict({{"0", line(2)}, {"updates", number(v)}});
         average.update();
         EXPECT_EQ(average.updates(), v + 1);
         EXPECT_EQ(average.averages()[0].to_doubles(), (Values{0, 1}));
       }},
  });
}

TEST(HostIntegers, Generation) {
  nn::Gpt gpt({.vocabulary = 4, .context = 4, .layers = 1, .heads = 1, .width = 4, .dropout = 0}, {.device = dev()});
  nn::RecurrentLm recurrent({.vocabulary = 4, .width = 2, .hidden = 2, .layers = 1}, {.device = dev()});
  gpt.eval();
  recurrent.eval();
  const auto decoder = nn::cached_decoder(gpt, 1);
  const std::vector<int32_t> prompt = {1};
  expect_calls({
      {"decoder", no_number, [&](int64_t v) { nn::cached_decoder(gpt, v); }},
      {"decoder", no_number, [&](int64_t v) { nn::cached_decoder(recurrent, v); }},
      {"decoder", no_number, [&](int64_t v) { nn::uncached_decoder(gpt, v); }},
      {"generate", no_number,
       [&](int64_t v) {
         nn::generate(*decoder, prompt, {.tokens = v, .stop = {0, 1, 2, 3}});
       }},
      {"generate", above_zero, [&](int64_t v) { nn::generate(*decoder, prompt, {.tokens = 2, .top_k = v}); }},
      {"beam_search", no_number, [&](int64_t v) { nn::beam_search(*decoder, prompt, {.beams = v, .tokens = 1}); }},
      {"beam_search", no_number, [&](int64_t v) { nn::beam_search(*decoder, prompt, {.beams = 1, .tokens = v}); }},
  });
}

}  // namespace
}  // namespace heddle::host_integers
