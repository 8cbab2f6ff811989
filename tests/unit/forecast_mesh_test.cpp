// Forecasts over meshes: memory, bytes and costs against formulas of the papers, what cannot be, and searches.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "heddle/core/base/error.h"
#include "heddle/distributed/forecast/block_cost.h"
#include "heddle/distributed/forecast/mesh_search.h"
#include "heddle/distributed/forecast/mesh_share.h"
#include "heddle/distributed/forecast/transformer.h"
#include "heddle/distributed/gradient_lists.h"

namespace heddle::distributed {
namespace {

Cluster cluster() { return known_cluster("dgx-h100"); }

TransformerConfig small_config() {
  return {.name = "small", .layers = 6, .width = 64, .heads = 8, .vocabulary = 100, .sequence = 32};
}

// With axes of any names.
Mesh parse_any(const std::string& text) {
  for (int ranks = 1;; ++ranks) {
    try {
      return Mesh::parse(text, ranks);
    } catch (const ValueError&) {
      if (ranks > 1000) throw;
    }
  }
}

// The text of the ValueError.
std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const ForecastOptions& options, const TransformerConfig& config = small_config()) {
  return refusal_of([&] { (void)forecast(transformer_layers(config), cluster(), options); });
}

TEST(ForecastMachine, ProductsAndTraffic) {
  const Machine machine{.flops_f32 = 1e12, .memory = 1e9, .memory_bandwidth = 1e11, .efficiency = 0.5, .half_size = 64};
  check(machine);
  EXPECT_DOUBLE_EQ(product_seconds(machine, DType::f32, 1e12, {}), 2);
  EXPECT_DOUBLE_EQ(product_seconds(machine, DType::f32, 1e12, {.rows = 64}), 4);
  EXPECT_DOUBLE_EQ(product_seconds(machine, DType::f32, 1e12, {64, 64, 64}), 16);
  EXPECT_DOUBLE_EQ(product_seconds(machine, DType::bf16, 0, {}), 0);
  EXPECT_THROW(product_seconds(machine, DType::bf16, 1, {}), ValueError);
  EXPECT_DOUBLE_EQ(traffic_seconds(machine, 1e11), 1);
  for (const double bad : {0.0, -1.0, 2.0, std::nan("")}) {
    Machine other = machine;
    other.efficiency = bad;
    EXPECT_NE(refusal_of([&] { check(other); }).find("machine.efficiency"), std::string::npos) << bad;
  }
  for (const double bad : {-1.0, std::nan("")}) {
    Machine other = machine;
    other.cut = bad;
    EXPECT_NE(refusal_of([&] { check(other); }).find("machine.cut"), std::string::npos) << bad;
    other = machine;
    other.record = bad;
    EXPECT_NE(refusal_of([&] { check(other); }).find("machine.record"), std::string::npos) << bad;
  }
}

TEST(ForecastLinks, LevelsOfGroups) {
  const Links links({{.name = "node", .ranks = 4, .bandwidth = 100, .latency = 1},
                     {.name = "rack", .ranks = 16, .bandwidth = 10, .latency = 1},
                     {.name = "all", .bandwidth = 1, .latency = 1}});
  // By looking at each rank of each group.
  const auto expected = [&](const Mesh& mesh, const std::vector<std::string>& names) {
    size_t widest = 0;
    for (const std::vector<int>& group : mesh.groups(names)) {
      for (const int rank : group) {
        while (widest < 2 && rank / links.levels()[widest].ranks != group[0] / links.levels()[widest].ranks) ++widest;
      }
    }
    return links.levels()[widest].name;
  };
  using Names = std::vector<std::string>;
  for (const char* text : {"x=1", "x=2,y=2", "x=2,y=3", "x=2,y=8", "x=2,y=12", "x=3,y=2,z=4", "x=2,y=16,z=2", "z=40"}) {
    const Mesh mesh = parse_any(text);
    for (const MeshAxis& axis : mesh.axes())
      EXPECT_EQ(links.level_of(mesh, {axis.name}).name, expected(mesh, {axis.name})) << text << " " << axis.name;
    if (mesh.axes().size() > 2) {
      EXPECT_EQ(links.level_of(mesh, Names{"x", "z"}).name, expected(mesh, Names{"x", "z"})) << text;
    }
  }
  EXPECT_EQ(links.level_of(parse_any("x=2,y=8"), {"x"}).name, "rack");
  const Level& node = links.levels().front();
  // Headers, then two moves of half of the bytes each way.
  EXPECT_DOUBLE_EQ(seconds_of(Move::all_reduce, 100, 2, node), 3 + 1);
  EXPECT_DOUBLE_EQ(seconds_of(Move::all_gather, 100, 4, node), 2 + 0.75);
  EXPECT_DOUBLE_EQ(seconds_of(Move::send, 100, 2, node), 2 + 1);
  EXPECT_DOUBLE_EQ(seconds_of(Move::all_reduce, 100, 1, node), 0);
}

TEST(ForecastLinks, BadLevels) {
  const auto text = [](std::vector<Level> levels) { return refusal_of([&] { (void)Links(std::move(levels)); }); };
  EXPECT_NE(text({}).find("there is no level"), std::string::npos);
  EXPECT_NE(text({{.name = "a", .bandwidth = 0}}).find("level.a.bandwidth is 0"), std::string::npos);
  EXPECT_NE(text({{.name = "a", .bandwidth = std::nan("")}}).find("level.a.bandwidth is nan"), std::string::npos);
  EXPECT_NE(text({{.name = "a", .bandwidth = 1, .latency = -1}}).find("level.a.latency"), std::string::npos);
  EXPECT_NE(text({{.name = "a", .ranks = 8, .bandwidth = 1}}).find("must be of all ranks"), std::string::npos);
  const Level all{.name = "all", .bandwidth = 1}, eight{.name = "eight", .ranks = 8, .bandwidth = 1};
  EXPECT_NE(text({all, eight}).find("cannot stand behind"), std::string::npos);
  EXPECT_NE(text({eight, {.name = "b", .ranks = 12, .bandwidth = 1}, all}).find("multiple of 8"), std::string::npos);
}

// Korthikanti et al. 2022, arXiv 2205.05198, equations 1, 2 and 4 and table 2, in 16 bits, of a block and an example.
TEST(ForecastTransformer, KeptBytesOfABlock) {
  const double s = 32, h = 64, a = 8;
  const auto kept = [&](bool scores, bool recomputes, bool sequence_parallel, int64_t tp) {
    TransformerConfig config = small_config();
    config.keeps_scores = scores;
    config.recomputes = recomputes;
    config.sequence_parallel = sequence_parallel;
    const StepLayers step = transformer_layers(config);
    return cost_of(step, step.blocks[1], {.tp = tp, .tp_level = {.bandwidth = 1}}, cluster().machine, false).kept;
  };
  EXPECT_DOUBLE_EQ(kept(true, false, false, 1), s * h * (34 + 5 * a * s / h));
  EXPECT_DOUBLE_EQ(kept(true, false, false, 4), s * h * (10 + 24.0 / 4 + 5 * a * s / h / 4));
  // The inputs of the columns are kept as they were gathered, where the paper gathers them again.
  EXPECT_DOUBLE_EQ(kept(true, false, true, 4), s * h / 4 * (34 + 5 * a * s / h) + 3.0 / 4 * 2 * 2 * s * h);
  EXPECT_DOUBLE_EQ(kept(false, false, false, 1), s * h * 34 + 4 * a * s);  // tiled: a sum for each row of scores
  EXPECT_DOUBLE_EQ(kept(true, true, false, 4), 2 * s * h);
}

// Rajbhandari et al. 2020, arXiv 1910.02054, figure 1, for f32 AdamW: 16 bytes a parameter, (8+8/N), (4+12/N), 16/N and
// the parameters of the two largest blocks.
TEST(ForecastMesh, MemoryOfZero) {
  TransformerConfig config = small_config();
  config.dtype = DType::f32;
  const StepLayers step = transformer_layers(config);
  const auto p = static_cast<double>(parameters_of(step));
  double largest = 0;
  for (const Block& block : step.blocks) {
    double elements = 0;
    for (const Layer& layer : block.layers) elements += static_cast<double>(layer.parameters);
    largest = std::max(largest, elements);
  }
  const auto state = [&](Sharding sharding) {
    const MeshForecast made = forecast(step, cluster(), {.mesh = "dp=4", .batch = 8, .sharding = sharding});
    const MemoryForecast& m = made.stages.at(0).memory;
    EXPECT_DOUBLE_EQ(m.peak, m.parameters + m.gradients + m.optimizer + m.activations);
    return m.parameters + m.gradients + m.optimizer;
  };
  EXPECT_DOUBLE_EQ(state(Sharding::none), 16 * p);
  EXPECT_DOUBLE_EQ(state(Sharding::zero1), (8 + 8.0 / 4) * p);
  EXPECT_DOUBLE_EQ(state(Sharding::zero2), (4 + 12.0 / 4) * p);
  EXPECT_DOUBLE_EQ(state(Sharding::zero3), 16 * p / 4 + 2 * 4 * largest);
}

TEST(ForecastMesh, BytesOfASum) {
  TransformerConfig config = small_config();
  config.dtype = DType::f32;
  const StepLayers step = transformer_layers(config);
  const auto values = static_cast<uint64_t>(parameters_of(step) + step.shared_values);
  const auto bytes = [&](const ForecastOptions& o) { return forecast(step, cluster(), o).stages.at(0).bytes_per_step; };
  EXPECT_EQ(bytes({.mesh = "dp=1", .batch = 4}), 0);
  const auto sum_of = [](uint64_t elements) {
    return static_cast<double>(exact_bytes_of(Move::all_reduce, elements, 4, 4, 0));
  };
  EXPECT_EQ(bytes({.mesh = "dp=4", .batch = 4, .overlap = false}), sum_of(values));
  // Four lists; each is a call, which is compared.
  EXPECT_EQ(bytes({.mesh = "dp=4", .batch = 4}), sum_of(values) + 3 * sum_of(0));
  // Stage 3 sends half as much again (the same paper, section 7), up to headers.
  const double all = bytes({.mesh = "dp=4", .batch = 4}),
               three = bytes({.mesh = "dp=4", .batch = 4, .sharding = Sharding::zero3});
  EXPECT_NEAR(three / all, 1.5, 0.01);
  // Four sums of s h values for a block and example, two forward and two backward, one for the embedding and one for
  // the head (Shoeybi et al. 2019, section 3), each 2 (N-1)/N.
  EXPECT_DOUBLE_EQ(bytes({.mesh = "tp=2", .batch = 3}), 3.0 * (4 * 6 + 2) * 32 * 64 * 4);
}

// A backward pass is a forward pass longer, and a stage holds inputs of blocks.
TEST(ForecastMesh, StagesThatComputeBlocksAgain) {
  StepLayers step = transformer_layers(small_config());
  const Cluster near{.name = "near",
                     .machine = cluster().machine,
                     .links = Links({{.name = "all", .bandwidth = 1e18}})};  // messages take no time
  const ForecastOptions options{.mesh = "pp=2", .batch = 8};
  const auto of = [&](PipelineSchedule schedule, bool again) {
    step.stages_recompute = again;
    ForecastOptions o = options;
    o.schedule = schedule;
    return forecast(step, near, o);
  };
  const auto plain = PipelineSchedule::one_forward_one_backward, split = PipelineSchedule::zero_bubble;
  const MeshForecast kept = of(plain, false), again = of(plain, true);
  // Passes of microbatches take four for three, the update behind them as long as before.
  EXPECT_GT(again.step_seconds, 1.25 * kept.step_seconds);
  EXPECT_LT(again.step_seconds, 4.0 / 3 * kept.step_seconds);
  EXPECT_NEAR(again.bubble, kept.bubble, 0.01);
  EXPECT_LT(again.stages[0].memory.activations, 0.5 * kept.stages[0].memory.activations);
  EXPECT_EQ(of(split, true).step_seconds, of(split, false).step_seconds);
  // One stage has what one process has.
  step.stages_recompute = true;
  const double alone = forecast(step, cluster(), {.mesh = "dp=1", .batch = 8}).step_seconds;
  step.stages_recompute = false;
  EXPECT_EQ(alone, forecast(step, cluster(), {.mesh = "dp=1", .batch = 8}).step_seconds);
}

// What training does not hide or replay, on a machine that computes in no time, over links of 1 MB/s.
class AsTrained : public testing::Test {
 protected:
  AsTrained() {
    TransformerConfig config = small_config();
    config.dtype = DType::f32;
    step_ = transformer_layers(config);
    step_.as_trained = true;
    bytes_ = 4 * static_cast<double>(parameters_of(step_));
  }
  double seconds(const ForecastOptions& options, double cut = 0, double latency = 0) const {
    Machine machine{.flops_f32 = 1e30, .memory = 1e12, .memory_bandwidth = 1e30, .cut = cut};
    const Level level{.name = "all", .bandwidth = 1e6, .latency = latency};
    return forecast(step_, {.name = "slow", .machine = machine, .links = Links({level})}, options).step_seconds;
  }
  StepLayers step_;
  double bytes_ = 0;  // of parameters
};

TEST_F(AsTrained, AStepIsCutWhereItSendsOrGets) {
  const auto cuts = [&](const ForecastOptions& o) { return (seconds(o, 1e-3) - seconds(o)) / 1e-3; };
  // Four sums in each of six blocks, one of the embedding and one in front of the head; the list of gradients.
  EXPECT_NEAR(cuts({.mesh = "tp=2", .batch = 4}), 4 * 6 + 2 + 1, 1e-6);
  EXPECT_NEAR(cuts({.mesh = "dp=2", .batch = 4}), 0, 1e-6);
  EXPECT_NEAR(cuts({.mesh = "dp=2", .batch = 4, .sharding = Sharding::zero1}), 1, 1e-6);
  EXPECT_NEAR(cuts({.mesh = "dp=1", .batch = 4, .sharding = Sharding::zero3}), 0, 1e-6);
  EXPECT_NEAR(cuts({.mesh = "pp=2", .batch = 2, .microbatches = 2}), 2 * 3 + 1, 1e-6);  // p + m - 1 microbatches
  const double buckets = std::ceil(bytes_ / static_cast<double>(least_bucket_bytes));
  const double two = cuts({.mesh = "dp=2", .batch = 4, .sharding = Sharding::zero2});
  EXPECT_GE(two, 1);
  EXPECT_LE(two, buckets);
}

// Whole models are replayed; of parts each microbatch is recorded anew, a stage's share of it.
TEST_F(AsTrained, PartsAreRecordedAnew) {
  const auto recorded = [&](const ForecastOptions& o) {
    const auto seconds_with = [&](double record) {
      const Machine machine{.flops_f32 = 1e30, .memory = 1e12, .memory_bandwidth = 1e30, .record = record};
      const Links links({{.name = "all", .bandwidth = 1e18}});
      return forecast(step_, {.name = "near", .machine = machine, .links = links}, o).step_seconds;
    };
    return seconds_with(1) - seconds_with(0);
  };
  EXPECT_NEAR(recorded({.mesh = "dp=2", .batch = 4}), 0, 1e-9);
  EXPECT_NEAR(recorded({.mesh = "tp=2", .batch = 4, .microbatches = 1}), 1, 1e-6);
  EXPECT_NEAR(recorded({.mesh = "tp=2", .batch = 4, .microbatches = 4}), 4, 1e-6);
  // Two stages have half of the layers each, or nearly so: p + m - 1 halves.
  EXPECT_NEAR(recorded({.mesh = "pp=2", .batch = 8, .microbatches = 8}), 9 / 2.0, 0.5);
}

// Sums of zero1, and of ranks that have parts of a model, begin when the backward pass is over; zero2's, and those of
// whole gradients, beside it. Here the passes take as long as the sums do.
TEST_F(AsTrained, SumsThatHideNothing) {
  const auto hidden = [&](const ForecastOptions& o) {
    Machine machine{.flops_f32 = 1e8, .memory = 1e12, .memory_bandwidth = 1e30};
    ForecastOptions behind = o;
    behind.overlap = false;
    const Cluster cluster{.name = "slow", .machine = machine, .links = Links({{.name = "all", .bandwidth = 1e6}})};
    return forecast(step_, cluster, behind).step_seconds - forecast(step_, cluster, o).step_seconds;
  };
  EXPECT_NEAR(hidden({.mesh = "dp=2,tp=2", .batch = 4}), 0, 1e-9);
  EXPECT_NEAR(hidden({.mesh = "dp=2", .batch = 4, .sharding = Sharding::zero1}), 0, 1e-9);
  EXPECT_GT(hidden({.mesh = "dp=2", .batch = 4, .sharding = Sharding::zero2}), 0.1);
  EXPECT_GT(hidden({.mesh = "dp=2", .batch = 4}), 0.1);
  step_.as_trained = false;
  EXPECT_GT(hidden({.mesh = "dp=2", .batch = 4, .sharding = Sharding::zero1}), 0.1);
}

// A bucket that is gathered or scattered is a call, with its latency; as many of each as there are buckets.
TEST_F(AsTrained, BucketsAreCalls) {
  const auto calls = [&](Sharding sharding) {
    const ForecastOptions o{.mesh = "dp=2", .batch = 4, .sharding = sharding};
    return (seconds(o, 0, 1e-3) - seconds(o)) / 2e-3;  // of each what compares it, and what moves
  };
  const double three = calls(Sharding::zero3);
  EXPECT_NEAR(three, 3 * std::round(three / 3), 1e-6);
  EXPECT_GT(three, 3);
  EXPECT_LE(std::round(three), 3 * std::ceil(bytes_ / static_cast<double>(least_bucket_bytes)));
}

TEST(ForecastMesh, StagesOfAPipeline) {
  const StepLayers step = transformer_layers(small_config());
  const MeshForecast made = forecast(step, cluster(), {.mesh = "pp=4,dp=2,tp=2", .batch = 16});
  ASSERT_EQ(made.stages.size(), 4u);
  EXPECT_EQ(made.ranks, 16);
  EXPECT_EQ(made.microbatches, 8);
  double elements = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(made.stages[i].ranks, 4);
    EXPECT_EQ(made.stages[i].live, 4 - static_cast<int64_t>(i));
    elements += made.stages[i].memory.parameters / 2;
  }
  // Each half of what tensor parallelism splits, and the tied weight at both ends.
  EXPECT_GT(elements * 2, static_cast<double>(parameters_of(step)));
  EXPECT_GT(made.bubble, 0);
  EXPECT_LT(made.mfu, 1);
}

TEST(ForecastMesh, OverlapHidesSums) {
  Cluster slow = cluster();
  slow.links = Links({{.name = "slow", .bandwidth = 1e6, .latency = 0}});
  const StepLayers step = transformer_layers(small_config());
  const auto seconds = [&](bool overlap) {
    return forecast(step, slow, {.mesh = "dp=2", .batch = 2, .overlap = overlap}).step_seconds;
  };
  const double alone = forecast(step, slow, {.mesh = "dp=1", .batch = 1}).step_seconds;
  const double sum = 4 * static_cast<double>(parameters_of(step)) / 1e6;
  EXPECT_NEAR(seconds(false), alone + sum, 1e-6 * sum);
  EXPECT_LT(seconds(true), seconds(false));
  EXPECT_GE(seconds(true), sum);
}

// What overlap saves of a step is what it hides of the calls' time.
TEST(ForecastMesh, HiddenShareIsWhatOverlapSaves) {
  Cluster slow = cluster();
  slow.links = Links({{.name = "slow", .bandwidth = 1e9, .latency = 0}});
  const StepLayers step = transformer_layers(small_config());
  for (const Sharding sharding : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    const auto made = [&](bool overlap) {
      return forecast(step, slow, {.mesh = "dp=2", .batch = 2, .sharding = sharding, .overlap = overlap});
    };
    const MeshForecast beside = made(true), behind = made(false);
    // Half of the gradients of 4 bytes each, with zero3 of the parameters of 2 bytes, twice, as well.
    const double share = sharding == Sharding::none || sharding == Sharding::zero3 ? 1 : 0.5;
    const double calls = share * 4 * static_cast<double>(parameters_of(step)) / 1e9;
    EXPECT_NEAR(behind.stages[0].communication_hidden, 0, 1e-12) << name_of(sharding);
    EXPECT_GT(beside.stages[0].communication_hidden, 0) << name_of(sharding);
    EXPECT_NEAR(beside.stages[0].communication_hidden * calls, behind.step_seconds - beside.step_seconds, 1e-9 * calls)
        << name_of(sharding);
  }
  EXPECT_EQ(forecast(step, slow, {.mesh = "dp=1", .batch = 2}).stages[0].communication_hidden, 0);
}

TEST(ForecastMesh, BadMeshes) {
  EXPECT_NE(refusal({.mesh = "dp=2,ep=2", .batch = 8}).find("there is no axis ep"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "dp", .batch = 8}).find("'dp' is no axis"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "dp=0", .batch = 8}).find("dp is 0"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "dp=-2", .batch = 8}).find("dp is -2"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "dp=2,dp=2", .batch = 8}).find("two axes are called dp"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "dp=4611686018427387904,tp=8", .batch = 8}).find("more than 1048576"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "pp=9", .batch = 8}).find("pp=9 of 1 chunk needs 9 blocks"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "tp=16", .batch = 8}).find("tp=16 does not divide the 8 heads"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "cp=5", .batch = 8}).find("cp=5 does not divide the 32 positions"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "dp=3", .batch = 8}).find("a batch of 8 is no multiple of dp=3"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "dp=2", .batch = 0}).find("--batch is 0"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "dp=2", .batch = 8, .microbatches = 3}).find("3 microbatches do not divide"),
            std::string::npos);
  TransformerConfig grouped = small_config();
  grouped.key_heads = 2;
  EXPECT_NE(refusal({.mesh = "tp=4", .batch = 8}, grouped).find("(2 of keys)"), std::string::npos);
  EXPECT_NE(refusal({.mesh = "pp=2", .batch = int64_t{1} << 40}).find("too many to simulate"), std::string::npos);
  grouped.layers = 1'000'000'000;
  EXPECT_NE(refusal({.mesh = "dp=1", .batch = 8}, grouped).find("layers is 1000000000"), std::string::npos);
  grouped.layers = 2;
  grouped.heads = 7;
  EXPECT_NE(refusal({.mesh = "dp=1", .batch = 8}, grouped).find("7 heads do not divide"), std::string::npos);
}

TEST(ForecastSearch, FastestFirstAndOnlyWhatFits) {
  const StepLayers step = transformer_layers(small_config());
  const auto found = search_meshes(step, cluster(), {.batch = 16}, 16);
  ASSERT_GT(found.size(), 5u);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ranks, 16);
    EXPECT_GE(found[i].step_seconds, found[i > 0 ? i - 1 : 0].step_seconds);
    const MeshForecast again = forecast(step, cluster(), {.mesh = found[i].mesh, .batch = 16});
    EXPECT_EQ(again.step_seconds, found[i].step_seconds) << found[i].mesh;
  }
  // With less memory some fit no more, and with next to none nothing does.
  Cluster tight = cluster();
  tight.machine.memory = found.back().peak();
  for (const MeshForecast& each : found) tight.machine.memory = std::min(tight.machine.memory, each.peak());
  const auto fewer = search_meshes(step, tight, {.batch = 16}, 16);
  EXPECT_LT(fewer.size(), found.size());
  tight.machine.memory = 1;
  const auto text = [&](int64_t batch, int64_t ranks) {
    return refusal_of([&] { (void)search_meshes(step, tight, {.batch = batch}, ranks); });
  };
  EXPECT_NE(text(16, 16).find("fits into 0.0 GB a rank"), std::string::npos) << text(16, 16);
  EXPECT_NE(text(16, 0).find("--search is 0"), std::string::npos);
  EXPECT_NE(text(16, 1 << 21).find("--search is 2097152"), std::string::npos);
  EXPECT_NE(text(1, 4099).find("no mesh of 4099 ranks"), std::string::npos);
}

}  // namespace
}  // namespace heddle::distributed
