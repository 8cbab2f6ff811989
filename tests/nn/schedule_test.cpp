// Schedules against PyTorch's (tools/parity/make_schedule_values.py), how they compose, and their errors.
#include "heddle/nn/schedule.h"

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "heddle/nn/optim.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

using nlohmann::json;
namespace schedule = nn::schedule;

json stored_rates() {
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/nn/schedule_values.json");
  return json::parse(file);
}

TEST(Schedule, LikePyTorch) {
  const std::map<std::string, nn::Schedule> known = {
      {"step", schedule::step(0.5, 7, 0.3)},
      {"multi_step", schedule::multi_step(0.5, {3, 10, 10, 25}, 0.5)},
      {"exponential", schedule::exponential(0.5, 0.9)},
      {"linear", schedule::linear(0.5, 12, 0.25, 0.75)},
      {"polynomial", schedule::polynomial(0.5, 15, 2)},
      {"cosine", schedule::cosine(0.5, 40, 0.1)},
      {"cosine_restarts", schedule::cosine_restarts(0.5, 6, 1, 0.05)},
      {"cosine_restarts_growing", schedule::cosine_restarts(0.5, 3, 2)},
      {"one_cycle", schedule::one_cycle(0.5, 40)},
      {"one_cycle_linear", schedule::one_cycle(0.5, 40, {.rising = 0.5, .start = 0.1, .end = 0.01, .cosine = false})},
      {"cyclical", schedule::cyclical(0.1, 0.7, 5, 8)},
      {"cyclical_shrinking", schedule::cyclical(0.1, 0.7, 4, 0, 0.5)},
      {"warmup_exponential", schedule::warmup(8, schedule::exponential(0.5, 0.9), 0.2)},
  };
  const json rates = stored_rates().at("rates");
  ASSERT_EQ(rates.size(), known.size());
  for (const auto& [name, rate] : known) {
    const std::vector<double> expected = rates.at(name);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(rate(static_cast<int64_t>(i) + 1), expected[i], 1e-12) << name << ", update " << i + 1;
  }
}

TEST(Schedule, StaysWhereItEnded) {
  EXPECT_DOUBLE_EQ(schedule::cosine(0.5, 10, 0.1)(1000), 0.1);
  EXPECT_DOUBLE_EQ(schedule::linear(0.5, 10, 0, 1)(1000), 0.5);
  EXPECT_NEAR(schedule::one_cycle(0.5, 10)(1000), 0.5 / 25 * 1e-4, 1e-15);
  EXPECT_DOUBLE_EQ(schedule::one_cycle(0.5, 2, {.rising = 0.5})(1), 0.5) << "a rise of one update is over at once";
}

TEST(Schedule, Composes) {
  const nn::Schedule parts =
      schedule::sequence({{schedule::constant(1), 3}, {schedule::linear(2, 2, 0), 2}, {schedule::constant(5), 1}});
  const std::vector<double> expected = {1, 1, 1, 0, 1, 5, 5};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_DOUBLE_EQ(parts(static_cast<int64_t>(i) + 1), expected[i]) << i;
  EXPECT_DOUBLE_EQ(schedule::product(schedule::constant(3), schedule::exponential(1, 0.5))(3), 0.75);
  EXPECT_DOUBLE_EQ(schedule::warmup(0, schedule::exponential(1, 0.5))(1), 1);
}

TEST(Schedule, DrivesAnOptimizer) {
  Tensor x = f32({8}, Shape{1}).set_requires_grad();
  nn::SGD sgd({x}, 1.0);
  sgd.set_schedule(schedule::exponential(4, 0.5));
  for (const double expected : {4.0, 2.0, 1.0}) {
    x.set_grad(f32({1}, Shape{1}));
    sgd.step();
    EXPECT_EQ(x.item(), expected);
  }
}

TEST(Schedule, BadNumbers) {
  const double nan = std::nan("");
  expect_error<ValueError>([] { schedule::step(0.1, 0); }, {"[schedule::step]", "every", "0"});
  expect_error<ValueError>([&] { schedule::constant(nan); }, {"[schedule::constant]", "nan"});
  expect_error<ValueError>([] { schedule::multi_step(0.1, {5, 2}); }, {"ascending"});
  expect_error<ValueError>([] { schedule::cosine(-1, 5); }, {"[schedule::cosine]", "-1"});
  expect_error<ValueError>([] { schedule::one_cycle(1, 10, {.rising = 1}); }, {"rising"});
  expect_error<ValueError>([] { schedule::sequence({}); }, {"no parts"});
  expect_error<ValueError>([] { nn::Plateau(0.1, {.factor = 1}); }, {"[Plateau]", "factor"});
}

TEST(Plateau, LikePyTorch) {
  const json all = stored_rates();
  for (const bool larger : {false, true}) {
    nn::PlateauOptions options{
        .larger_is_better = larger, .factor = 0.5, .patience = 2, .threshold = 1e-3, .cooldown = 2, .least = 0.1};
    nn::Plateau plateau(0.5, options);
    const std::vector<double> expected = all.at(larger ? "plateau_max" : "plateau_min");
    for (size_t i = 0; i < expected.size(); ++i) {
      const json& metric = all.at("metrics")[i];
      const double small = metric.is_null() ? std::nan("") : metric.get<double>(), value = larger ? 2 - small : small;
      nn::Plateau resumed(0.5, options);
      resumed.set_state(plateau.state());
      EXPECT_NEAR(plateau.observe(value), expected[i], 1e-12)
          << "observation " << i << (larger ? ", larger is better" : "");
      resumed.observe(value);
      EXPECT_TRUE(resumed.state() == plateau.state()) << i;
    }
  }
}

}  // namespace
}  // namespace heddle::tests
