// The parts of benchmarks and tuner that need no device: statistics, case texts, search, verdicts, the picture.
#ifdef HEDDLE_HAS_BENCH
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <regex>
#include <set>
#include <thread>

#include "bench/plot.h"
#include "bench/run.h"
#include "bench/search.h"
#include "bench/suites.h"
#include "bench/tune_session.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

TEST(Measure, QuantilesAndMeans) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(quantile({0, 1, 2, 3, 4}, 0.25), 1);
  EXPECT_EQ(quantile({0, 10}, 0.75), 7.5);
  EXPECT_NEAR(geometric_mean({0.5, 2, 4}), std::cbrt(4.0), 1e-12);
  const Spread ratio = ratio_spread({2, 6, 4}, {1, 2, 4});
  EXPECT_EQ(ratio.median, 2);
  EXPECT_EQ(ratio.low, 1.5);
}

TEST(Measure, SidesTakeTurns) {
  std::string order;
  int finished = 0;
  const auto side = [&](char name) { return Side{[&order, name] { order += name; }, [&finished] { ++finished; }, 0}; };
  Timing timing;
  timing.repetitions = 10;
  timing.repetition_seconds = 1e-7;
  const auto seconds = measure({side('a'), side('b')}, timing);
  ASSERT_EQ(seconds.size(), 2u);
  EXPECT_EQ(seconds[0].size(), 10u);
  EXPECT_GT(finished, 20);
  EXPECT_NE(order.find("ab"), std::string::npos);
  EXPECT_NE(order.find("ba"), std::string::npos);
}

// `slow` calls take longer than the limit.
Row measured_with_slow_calls(int slow) {
  auto calls = std::make_shared<int>(0);
  Case c{.family = "test", .name = "slow"};
  c.make = [slow, calls](const Environment& e) {
    return Workload{.run = [slow, calls, &device = e.device] {
      if (++*calls <= slow) std::this_thread::sleep_for(std::chrono::milliseconds(60));
      return std::vector<Tensor>{zeros({1}, DType::f32, &device)};
    }};
  };
  DeviceContext& device = heddle::device("reference:0");
  Bounds bounds(device);
  Options options;
  options.timing.repetitions = 10;
  options.timing.repetition_seconds = 1e-7;
  options.longest_call = 0.05;
  return measure_case(c, device, bounds, options);
}

TEST(Measure, WhatIsCompiledFirstMakesNoCaseTooSlow) {
  EXPECT_GT(measured_with_slow_calls(0).seconds.median, 0);
  EXPECT_GT(measured_with_slow_calls(2).seconds.median, 0);
  EXPECT_THROW(measured_with_slow_calls(1000), TooSlow);
}

float first_loss(DType dtype) {
  const Case c = make_case(find_family("step"), "mlp:3", dtype);
  const Workload w = c.make({.device = heddle::device("reference:0")});
  return w.run()[0].item<float>();
}

// The same weights and data; the products alone are rounded to eight bits.
TEST(Cases, StepsInBf16AreUnderAutocast) {
  const float f32 = first_loss(DType::f32), bf16 = first_loss(DType::bf16);
  EXPECT_NE(bf16, f32);
  EXPECT_NEAR(bf16, f32, 0.02F * f32);
  EXPECT_THROW(make_case(find_family("step"), "mlp:3", DType::f16), ValueError);
}

TEST(Cases, TrafficAndDifferences) {
  const Case c = make_case(find_family("matmul"), "3*tn:4x5x6", DType::f16);
  EXPECT_EQ(c.flops, 2.0 * 3 * 4 * 5 * 6);
  EXPECT_EQ(c.bytes, 2.0 * 3 * (4 * 6 + 6 * 5 + 4 * 5));
  EXPECT_EQ(difference(std::vector<float>{1, 2}, std::vector<float>{1, 2}, 0), "");
  EXPECT_NE(difference(std::vector<float>{1, 2.1f}, std::vector<float>{1, 2}, 1e-3).find("element 1 is 2.1"),
            std::string::npos);
  EXPECT_NE(difference(std::vector<float>{NAN}, std::vector<float>{1}, 1), "");
  EXPECT_NE(difference(std::vector<float>{1}, std::vector<float>{1, 2}, 1), "");
}

std::vector<float> first_result(const Workload& workload) {
  const std::vector<Tensor> results = workload.run();
  return floats_of(results.at(0));
}

// Of 32 pictures through ResNet-50 the reference computes one.
TEST(Cases, TheReferenceComputesTheLastExampleOfAForwardPass) {
  for (const char* name : {"mlp:3", "cnn:2", "mlp:1"}) {
    const Case c = make_case(find_family("infer"), name, DType::f32);
    ASSERT_TRUE(c.last_part) << name;
    const Environment reference{heddle::device("reference:0"), {}};
    const std::vector<float> all = first_result(c.make(reference)), last = first_result(c.last_part(reference));
    ASSERT_EQ(last.size(), 10u) << name;
    EXPECT_TRUE(std::equal(last.begin(), last.end(), all.end() - 10)) << name;
  }
}

// Seconds are least at MR = 12, NV = 2 of schedule 2; some points are faster but wrong.
class Landscape {
 public:
  Trial operator()(const Bindings& values) {
    EXPECT_EQ(tunable_space("matmul").refusal("matmul", values), "");
    EXPECT_TRUE(seen_.insert(values).second);
    EXPECT_FALSE(values.contains("A_K1"));
    Trial trial;
    if (values.at("SCHEDULE") != 2) {
      trial.status = values.at("SCHEDULE") == 0   ? Trial::Status::wrong
                     : values.at("SCHEDULE") == 1 ? Trial::Status::compile
                                                  : Trial::Status::hang;
      trial.ratio = 100;
      return trial;
    }
    trial.ratio = 2.0 - 0.05 * std::abs(static_cast<double>(values.at("MR")) - 12) -
                  0.1 * std::abs(static_cast<double>(values.at("NV")) - 2);
    return trial;
  }
  size_t size() const { return seen_.size(); }

 private:
  std::set<Bindings> seen_;
};

SearchInput matmul_search(Landscape& landscape) {
  SearchInput input;
  input.body = "matmul";
  input.space = tunable_space("matmul");
  input.start = {{"SCHEDULE", 2}, {"VW", 4}, {"MR", 4}, {"NV", 1}, {"A_K1", 1}};
  input.evaluate = [&](const Bindings& values) { return landscape(values); };
  input.stop = [] { return false; };
  return input;
}

TEST(Search, FindsTheBestAndNeverAWrongOne) {
  Landscape landscape;
  const SearchResult result = search(matmul_search(landscape));
  EXPECT_EQ(result.best.at("MR"), 12);
  EXPECT_EQ(result.best.at("NV"), 2);
  EXPECT_EQ(result.best.at("SCHEDULE"), 2);
  EXPECT_NEAR(result.trial.ratio, 2.0, 0.051);
  EXPECT_GT(result.counts.wrong, 0);
  EXPECT_GT(result.counts.failed, 0);
  EXPECT_EQ(static_cast<size_t>(result.counts.tried), landscape.size());
  EXPECT_LE(result.counts.tried, 400);
  Landscape again;
  EXPECT_EQ(search(matmul_search(again)).best, result.best);
}

TEST(Search, StopsAndKeepsTheDefault) {
  Landscape landscape;
  SearchInput input = matmul_search(landscape);
  input.most = 7;
  EXPECT_EQ(search(input).counts.tried, 7);
  input.stop = [] { return true; };
  const SearchResult none = search(input);
  EXPECT_EQ(none.counts.tried, 0);
  EXPECT_EQ(none.best.at("MR"), 4);
  EXPECT_EQ(none.trial.ratio, 1);
}

TEST(Search, SeedsComeFirst) {
  Landscape landscape;
  SearchInput input = matmul_search(landscape);
  input.seeds = {{{"MR", 12}, {"NV", 2}}, {{"MR", 7}}, {{"NO_SUCH", 1}}};
  input.most = 1;
  EXPECT_NEAR(search(input).trial.ratio, 2.0, 1e-9);
}

TEST(Faults, Parse) {
  const std::vector<Fault> faults = parse_faults("MR=6:hang,NV=1:wrong");
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults[1].tunable + faults[1].kind, "NVwrong");
  EXPECT_THROW(parse_faults("MR:6"), ValueError);
}

Row row_of(const std::string& family, const std::string& name, double seconds, double peer_seconds) {
  Row row;
  row.family = family;
  row.name = name;
  row.device = "opencl:0";
  row.seconds = {seconds, seconds, seconds};
  row.flops = 1e9;
  row.bytes = 1e7;
  if (peer_seconds > 0)
    row.peers.push_back({"onednn", {peer_seconds, peer_seconds, peer_seconds}, {peer_seconds / seconds, 0, 0}});
  return row;
}

TEST(Suites, Verdicts) {
  std::vector<Row> rows = {row_of("matmul", "256x256x256", 1, 2), row_of("matmul", "512x512x512", 1, 0.5)};
  std::vector<Verdict> verdicts = judge("squares", rows);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_NEAR(verdicts[0].value, 1.0, 1e-12);
  EXPECT_TRUE(verdicts[0].met);
  EXPECT_EQ(verdicts[0].rows, 2);
  EXPECT_NEAR(verdicts[1].value, 0.5, 1e-12);
  EXPECT_FALSE(verdicts[1].met);
  for (Row& row : rows) row.device = "vulkan:0";
  EXPECT_TRUE(judge("squares", rows).empty());
  EXPECT_THROW(judge("juggling", rows), ValueError);
  EXPECT_FALSE(suite_cases("issue3").empty());
}

TEST(Plot, RoofsAndMarks) {
  const Row odd = row_of("matmul", "a<b&\"c\"", 1e-3, 0);
  Row nothing = row_of("dispatch", "1", 1e-3, 0);
  nothing.flops = 0;
  const std::string svg = roofline_svg({odd, nothing}, {{"opencl:0", 3e11, 3e10, 2e10}}, "title");
  EXPECT_TRUE(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("a&lt;b&amp;&quot;c&quot;"), std::string::npos);
  EXPECT_NE(svg.find("peak 300 GFLOP/s"), std::string::npos);
  EXPECT_EQ(svg.find("dispatch"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_TRUE(roofline_svg({}, {}, "").ends_with("</svg>\n"));
}

// The places of y="..." attributes on a logarithmic axis: a row stands to its own bound as its fraction says, whatever
// the roofs are.
TEST(Plot, ARowStandsToItsBoundAsTheLegendSays) {
  Row row = row_of("elementwise", "4096", 1e-3, 0);
  row.flops = 4e6;
  row.bytes = 4e7;
  row.bound = Bound::copy;
  for (const double fraction : {0.25, 1.18}) {
    row.fraction = {fraction, fraction, fraction};
    const std::string svg =
        roofline_svg({row}, {{"opencl:0", 1e12, 1e9, 1e9}}, "title");  // the dot lies forty times above these roofs
    std::smatch dot, bar;
    ASSERT_TRUE(std::regex_search(svg, dot, std::regex("<circle cx=\"[^\"]*\" cy=\"([^\"]*)\"")));
    ASSERT_TRUE(std::regex_search(
        svg, bar,
        std::regex(
            "y1=\"([^\"]*)\" x2=\"[^\"]*\" y2=\"([^\"]*)\" class=\"bound\" stroke=\"#[0-9a-f]*\" stroke-width")));
    std::smatch ten, one;  // two labels of the vertical axis, a decade apart
    ASSERT_TRUE(std::regex_search(svg, ten, std::regex("y=\"([^\"]*)\" text-anchor=\"end\">10<")));
    ASSERT_TRUE(std::regex_search(svg, one, std::regex("y=\"([^\"]*)\" text-anchor=\"end\">1<")));
    const double decade = std::stod(one[1]) - std::stod(ten[1]), above = std::stod(dot[1]) - std::stod(bar[1]);
    EXPECT_NEAR(std::pow(10, above / decade), 1 / fraction, 0.01 / fraction);
    EXPECT_EQ(bar[1].str(), bar[2].str());
    EXPECT_NE(svg.find(fraction < 1 ? "0.25 of copy" : "1.18 of copy"), std::string::npos);
  }
}

}  // namespace
}  // namespace heddle::bench
#endif
