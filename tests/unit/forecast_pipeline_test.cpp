// Pipelines: bubbles and live microbatches are those of the papers' formulas, and every action runs once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "heddle/core/base/error.h"
#include "heddle/distributed/forecast/partition.h"
#include "heddle/distributed/forecast/pipeline_run.h"

namespace heddle::distributed {
namespace {

constexpr std::array all_schedules = {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward,
                                      PipelineSchedule::interleaved, PipelineSchedule::zero_bubble,
                                      PipelineSchedule::zero_bubble_ahead};

// A forward pass of 1 over all chunks of a stage, and as much for each gradient.
PipelineRun run_even(PipelineSchedule schedule, const PipelineSizes& sizes, double message = 0) {
  const double each = 1.0 / static_cast<double>(sizes.chunks);
  const ChunkCost cost{each, each, each, message, message, each};
  const std::vector<std::vector<ChunkCost>> costs(static_cast<size_t>(sizes.stages),
                                                  std::vector<ChunkCost>(static_cast<size_t>(sizes.chunks), cost));
  return run_pipeline(pipeline_order(schedule, sizes), sizes, costs);
}

std::vector<PipelineSizes> odd_sizes() {
  return {{1, 1, 1}, {1, 7, 1}, {2, 1, 1}, {2, 8, 1}, {3, 2, 1}, {4, 5, 1}, {7, 7, 1}, {8, 64, 1}};
}

TEST(ForecastPipeline, EveryActionStandsOnceAndRuns) {
  for (const PipelineSchedule schedule : all_schedules) {
    for (PipelineSizes sizes : odd_sizes()) {
      if (schedule == PipelineSchedule::interleaved) {
        sizes.chunks = 3;
        sizes.microbatches *= sizes.stages;
      }
      const auto order = pipeline_order(schedule, sizes);
      for (const std::vector<Action>& stage : order) {
        std::set<std::tuple<int, int64_t, int64_t>> seen;
        for (const Action& a : stage) seen.emplace(static_cast<int>(a.pass), a.microbatch, a.chunk);
        EXPECT_EQ(seen.size(), stage.size());
        const bool ahead = schedule == PipelineSchedule::zero_bubble_ahead;
        const int64_t passes = schedule == PipelineSchedule::zero_bubble ? 3 : 2, place = &stage - order.data();
        const int64_t halves = ahead && place > 0 ? std::min(2 * place + 2, sizes.microbatches) : 0;
        EXPECT_EQ(static_cast<int64_t>(stage.size()), passes * sizes.microbatches * sizes.chunks + halves);
      }
      const PipelineRun run = run_even(schedule, sizes, 0.25);
      for (const StageRun& stage : run.stages)
        EXPECT_NEAR(stage.busy, 3.0 * static_cast<double>(sizes.microbatches), 1e-9) << name_of(schedule);
    }
  }
}

// Huang et al. 2019, section 2.2, and Narayanan et al. 2021, section 2.2: (p-1)/(m+p-1) of the whole time.
TEST(ForecastPipeline, BubbleOfGpipeAnd1F1B) {
  for (const PipelineSizes& sizes : odd_sizes()) {
    const auto p = static_cast<double>(sizes.stages), m = static_cast<double>(sizes.microbatches);
    for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_forward_one_backward}) {
      const PipelineRun run = run_even(schedule, sizes);
      EXPECT_NEAR(run.bubble, (p - 1) / (m + p - 1), 1e-12) << name_of(schedule) << " " << p << " " << m;
      EXPECT_NEAR(run.seconds, 3 * (m + p - 1), 1e-9);
    }
  }
}

// Narayanan et al. 2021, section 2.2.2: of the ideal time, (p-1)/(v m).
TEST(ForecastPipeline, BubbleOfTheInterleavedSchedule) {
  for (const auto& [stages, microbatches, chunks] :
       {std::tuple{2, 8, 2}, {4, 8, 2}, {4, 16, 3}, {8, 8, 4}, {5, 15, 1}}) {
    const PipelineRun run = run_even(PipelineSchedule::interleaved, {stages, microbatches, chunks});
    const double ideal = 3.0 * microbatches;
    EXPECT_NEAR(run.seconds / ideal - 1, (stages - 1.0) / (chunks * microbatches), 1e-9)
        << stages << " " << microbatches << " " << chunks;
  }
}

// Qi et al. 2023, table 1: (p-1)(F+B-W), a third of 1F1B's where the three take the same.
TEST(ForecastPipeline, BubbleOfZeroBubbleIsAThirdOf1F1B) {
  for (const PipelineSizes& sizes : odd_sizes()) {
    if (sizes.microbatches < sizes.stages) continue;
    const auto p = static_cast<double>(sizes.stages), m = static_cast<double>(sizes.microbatches);
    const PipelineRun run = run_even(PipelineSchedule::zero_bubble, sizes);
    EXPECT_NEAR(run.seconds, 3 * m + (p - 1), 1e-9) << p << " " << m;
    const PipelineRun plain = run_even(PipelineSchedule::one_forward_one_backward, sizes);
    EXPECT_LE(run.bubble, plain.bubble / 2 + 1e-12);
  }
}

// Of two stages as short as zb1p, of more between that and 1F1B; messages are hidden by what is ahead.
TEST(ForecastPipeline, ForwardPassesAheadHideMessages) {
  for (const PipelineSizes& sizes : odd_sizes()) {
    for (const double message : {0.0, 0.15}) {
      const PipelineRun run = run_even(PipelineSchedule::zero_bubble_ahead, sizes, message);
      const PipelineRun plain = run_even(PipelineSchedule::one_forward_one_backward, sizes, message);
      EXPECT_LE(run.seconds, plain.seconds + 1e-9) << sizes.stages << " " << sizes.microbatches << " " << message;
      for (size_t s = 0; s < run.stages.size(); ++s) {
        const auto place = static_cast<int64_t>(s);
        EXPECT_LE(run.stages[s].live, std::max(2 * (sizes.stages - place), place > 0 ? 2 * place + 2 : 0));
      }
    }
  }
  const PipelineSizes two{2, 8, 1};
  for (const StageRun& stage : run_even(PipelineSchedule::zero_bubble_ahead, two).stages) EXPECT_EQ(stage.live, 4);
  EXPECT_NEAR(run_even(PipelineSchedule::zero_bubble_ahead, two).seconds, 3 * 8 + 1, 1e-9);
  EXPECT_LT(run_even(PipelineSchedule::zero_bubble_ahead, two, 0.15).bubble,
            run_even(PipelineSchedule::one_forward_one_backward, two, 0.15).bubble / 2);
  EXPECT_LT(run_even(PipelineSchedule::zero_bubble_ahead, two, 0.15).seconds,
            run_even(PipelineSchedule::zero_bubble, two, 0.15).seconds);
}

TEST(ForecastPipeline, LiveMicrobatches) {
  for (const PipelineSizes& sizes : odd_sizes()) {
    const PipelineRun gpipe = run_even(PipelineSchedule::gpipe, sizes);
    const PipelineRun plain = run_even(PipelineSchedule::one_forward_one_backward, sizes);
    const PipelineRun zero = run_even(PipelineSchedule::zero_bubble, sizes);
    for (size_t s = 0; s < plain.stages.size(); ++s) {
      const int64_t behind = sizes.stages - static_cast<int64_t>(s);
      EXPECT_EQ(gpipe.stages[s].live, sizes.microbatches);
      EXPECT_EQ(plain.stages[s].live, std::min(behind, sizes.microbatches));
      EXPECT_LE(zero.stages[s].live, sizes.stages);
      EXPECT_NEAR(plain.stages[s].kept, static_cast<double>(plain.stages[s].live), 1e-9);
    }
  }
}

TEST(ForecastPipeline, MessagesDelay) {
  // F, message, F, backward, message, backward: a gradient leaves when a whole pass, or its first half, is done.
  const PipelineRun whole = run_even(PipelineSchedule::one_forward_one_backward, {2, 1, 1}, 0.5);
  EXPECT_DOUBLE_EQ(whole.seconds, 1 + 0.5 + 1 + 2 + 0.5 + 2);
  const PipelineRun halves = run_even(PipelineSchedule::zero_bubble, {2, 1, 1}, 0.5);
  EXPECT_DOUBLE_EQ(halves.seconds, 1 + 0.5 + 1 + 1 + 0.5 + 2);
  EXPECT_DOUBLE_EQ(run_even(PipelineSchedule::gpipe, {1, 3, 1}, 0.5).seconds, 9);
}

TEST(ForecastPipeline, AnOrderThatWaitsForItselfIsRefused) {
  const std::vector<std::vector<Action>> order = {{{Pass::input_gradient, 0, 0}, {Pass::forward, 0, 0}}};
  EXPECT_THROW(run_pipeline(order, {1, 1, 1}, {{{1, 1, 1, 0, 0, 0}}}), std::logic_error);
}

TEST(ForecastPipeline, BadSizes) {
  using S = PipelineSchedule;
  EXPECT_THROW(pipeline_order(S::gpipe, {0, 1, 1}), ValueError);
  EXPECT_THROW(pipeline_order(S::gpipe, {1, 0, 1}), ValueError);
  EXPECT_THROW(pipeline_order(S::zero_bubble, {2, 4, 2}), ValueError);
  EXPECT_THROW(pipeline_order(S::interleaved, {4, 6, 2}), ValueError);
  EXPECT_THROW(parse_schedule("1F1B"), ValueError);
  for (const S schedule : all_schedules) EXPECT_EQ(parse_schedule(name_of(schedule)), schedule);
}

// The least largest sum, by trying every partition.
double best_by_trying(const std::vector<double>& costs, size_t from, size_t places) {
  double sum = 0, best = 1e300;
  if (places == 1) {
    for (size_t i = from; i < costs.size(); ++i) sum += costs[i];
    return sum;
  }
  for (size_t i = from; i + places <= costs.size(); ++i) {
    sum += costs[i];
    best = std::min(best, std::max(sum, best_by_trying(costs, i + 1, places - 1)));
  }
  return best;
}

TEST(ForecastPipeline, PartitionIsTheBest) {
  const std::vector<double> costs = {3, 0, 1, 8, 2, 2, 5, 0, 7};
  for (size_t places = 1; places <= costs.size(); ++places) {
    const std::vector<size_t> begins = partition_blocks(costs, places);
    ASSERT_EQ(begins.size(), places + 1);
    EXPECT_EQ(begins.front(), 0u);
    EXPECT_EQ(begins.back(), costs.size());
    double largest = 0;
    for (size_t k = 0; k < places; ++k) {
      EXPECT_LT(begins[k], begins[k + 1]);
      double sum = 0;
      for (size_t i = begins[k]; i < begins[k + 1]; ++i) sum += costs[i];
      largest = std::max(largest, sum);
    }
    EXPECT_DOUBLE_EQ(largest, best_by_trying(costs, 0, places)) << places;
  }
  EXPECT_THROW(partition_blocks(costs, 10), ValueError);
  EXPECT_THROW(partition_blocks({}, 1), ValueError);
}

}  // namespace
}  // namespace heddle::distributed
