#include "heddle/distributed/forecast/pipeline_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "heddle/core/base/error.h"

namespace heddle::distributed {
namespace {

constexpr std::array names = {
    std::pair{PipelineSchedule::gpipe, "gpipe"}, std::pair{PipelineSchedule::one_forward_one_backward, "1f1b"},
    std::pair{PipelineSchedule::interleaved, "interleaved"}, std::pair{PipelineSchedule::zero_bubble, "zb1p"},
    std::pair{PipelineSchedule::zero_bubble_ahead, "zb2p"}};

void check(PipelineSchedule schedule, const PipelineSizes& s) {
  for (const auto& [what, size] :
       {std::pair{"stages", s.stages}, {"microbatches", s.microbatches}, {"chunks", s.chunks}}) {
    if (size < 1) throw ValueError(fmt::format("[plan] {} {} of a pipeline; there must be at least 1", size, what));
  }
  if (schedule != PipelineSchedule::interleaved) {
    if (s.chunks > 1)
      throw ValueError(fmt::format("[plan] --chunks {} has no meaning for --schedule {}; it is of interleaved",
                                   s.chunks, name_of(schedule)));
  } else if (s.microbatches % s.stages != 0) {
    throw ValueError(
        fmt::format("[plan] --schedule interleaved needs microbatches in multiples of the {} stages; {} "
                    "are not",
                    s.stages, s.microbatches));
  }
}

// The actions of one stage.
class Stage {
 public:
  Stage(const PipelineSizes& sizes, int64_t stage) : sizes_(sizes), stage_(stage) {}

  std::vector<Action> gpipe() {
    for (int64_t i = 0; i < sizes_.microbatches; ++i) forward(i);
    for (int64_t i = 0; i < sizes_.microbatches; ++i) backward(i);
    return std::move(actions_);
  }

  // Forward passes until the first gradient can come, then one of each.
  std::vector<Action> one_forward_one_backward(int64_t ahead) {
    const int64_t all = sizes_.microbatches * sizes_.chunks, first = std::min(ahead, all);
    for (int64_t i = 0; i < first; ++i) forward(i);
    for (int64_t i = first; i < all; ++i) {
      forward(i);
      backward(i - first);
    }
    for (int64_t i = all - first; i < all; ++i) backward(i);
    return std::move(actions_);
  }

  // As 1F1B, but a stage owes the weights' gradients of as many microbatches as there are stages before it: it never
  // holds more than the first stage does.
  std::vector<Action> zero_bubble() {
    const int64_t all = sizes_.microbatches, first = std::min(sizes_.stages - stage_ - 1, all);
    for (int64_t i = 0; i < first; ++i) forward(i);
    for (int64_t i = 0; i < all; ++i) {
      if (i + first < all) forward(i + first);
      add(Pass::input_gradient, i, 0);
      if (i >= stage_) add(Pass::weight_gradient, i - stage_, 0);
    }
    for (int64_t i = std::max<int64_t>(all - stage_, 0); i < all; ++i) add(Pass::weight_gradient, i, 0);
    return std::move(actions_);
  }

  // As 1F1B with twice as many forward passes ahead and one, so that neither a message nor a whole backward pass of the
  // stage behind is waited for. Of its last microbatches a stage has the inputs' gradients alone, which those before it
  // get so much earlier, and those of the weights at the end, while they have their last passes.
  std::vector<Action> zero_bubble_ahead() {
    const int64_t all = sizes_.microbatches, behind = sizes_.stages - stage_ - 1;
    const int64_t first = std::min(behind > 0 ? 2 * behind + 1 : 0, all);
    const int64_t whole = std::max<int64_t>(all - (stage_ > 0 ? 2 * stage_ + 2 : 0), 0);
    for (int64_t i = 0; i < first; ++i) forward(i);
    for (int64_t i = 0; i < all; ++i) {
      if (i + first < all) forward(i + first);
      add(i < whole ? Pass::backward : Pass::input_gradient, i, 0);
    }
    for (int64_t i = whole; i < all; ++i) add(Pass::weight_gradient, i, 0);
    return std::move(actions_);
  }

 private:
  // Of the turn-th pass: groups of as many microbatches as there are stages go through one chunk after the other.
  int64_t chunk_of(int64_t turn) const { return turn / sizes_.stages % sizes_.chunks; }
  int64_t microbatch_of(int64_t turn) const {
    if (sizes_.chunks == 1) return turn;
    return turn / (sizes_.stages * sizes_.chunks) * sizes_.stages + turn % sizes_.stages;
  }

  void add(Pass pass, int64_t microbatch, int64_t chunk) { actions_.push_back({pass, microbatch, chunk}); }
  void forward(int64_t turn) { add(Pass::forward, microbatch_of(turn), chunk_of(turn)); }
  void backward(int64_t turn) { add(Pass::backward, microbatch_of(turn), sizes_.chunks - 1 - chunk_of(turn)); }

  const PipelineSizes& sizes_;
  int64_t stage_;
  std::vector<Action> actions_;
};

std::vector<Action> order_of(PipelineSchedule schedule, const PipelineSizes& s, int64_t stage) {
  Stage made(s, stage);
  switch (schedule) {
    case PipelineSchedule::gpipe:
      return made.gpipe();
    case PipelineSchedule::zero_bubble:
      return made.zero_bubble();
    case PipelineSchedule::zero_bubble_ahead:
      return made.zero_bubble_ahead();
    case PipelineSchedule::interleaved:
      if (s.chunks > 1) return made.one_forward_one_backward((s.stages - stage - 1) * 2 + (s.chunks - 1) * s.stages);
      break;
    case PipelineSchedule::one_forward_one_backward:
      break;
  }
  return made.one_forward_one_backward(s.stages - stage - 1);
}

}  // namespace

PipelineSchedule parse_schedule(std::string_view name) {
  for (const auto& [schedule, known] : names)
    if (name == known) return schedule;
  throw ValueError(fmt::format("[plan] --schedule is {}; it must be gpipe, 1f1b, interleaved, zb1p or zb2p", name));
}

std::string_view name_of(PipelineSchedule schedule) { return names[static_cast<size_t>(schedule)].second; }

std::vector<std::vector<Action>> pipeline_order(PipelineSchedule schedule, const PipelineSizes& sizes) {
  check(schedule, sizes);
  std::vector<std::vector<Action>> stages;
  for (int64_t stage = 0; stage < sizes.stages; ++stage) stages.push_back(order_of(schedule, sizes, stage));
  return stages;
}

}  // namespace heddle::distributed
