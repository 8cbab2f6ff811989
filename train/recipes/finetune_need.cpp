#include "heddle/train/recipes/finetune_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/blank_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/data/loader.h"
#include "heddle/nn/average.h"
#include "heddle/nn/weights.h"
#include "heddle/train/recipes/finetune.h"
#include "heddle/train/recipes/finetune_base.h"
#include "heddle/train/step.h"

namespace heddle::train {
namespace {

constexpr double most_tokens = 0x1p26;  // of an update

// So many that each fills a row, all of whose tokens give a loss.
std::vector<data::ChatTokens> examples(int64_t count, int64_t length, int32_t token) {
  const auto size = static_cast<size_t>(length);
  return std::vector(static_cast<size_t>(count),
                     data::ChatTokens{std::vector<int32_t>(size, token), std::vector<uint8_t>(size, 1)});
}

// What is made on the host for a plan has an end.
void check_size(const Config& c) {
  const double rows = static_cast<double>(c.training.batch) * static_cast<double>(c.training.accumulate);
  if (rows * static_cast<double>(c.model_value<Integer>("length")) > most_tokens)
    throw ValueError(fmt::format("[finetune] an update of {} x {} rows of {} tokens is too large to be planned",
                                 c.training.batch, c.training.accumulate, c.model_value<Integer>("length")));
}

// Whether the model goes on with a question at times.
bool has_samples(const Config& c) {
  return c.log.sample_every == 0 || c.training.steps == 0 || c.log.sample_every <= c.training.steps;
}

// A batch, what an evaluation takes at once, and a question of half a row. A length that the model does not read is
// refused by the run.
ChatData full_rows(const Config& c, int64_t context) {
  const int64_t length = std::clamp<int64_t>(c.model_value<Integer>("length"), 1, context),
                batch = examples_per_update(c), held = std::max<int64_t>(1, evaluation_tokens / length);
  ChatData data{.training = examples(batch, length, 0), .validation = examples(held, length, 0)};
  if (has_samples(c)) data.prompt.assign(static_cast<size_t>(std::max<int64_t>(1, length / 2)), 0);
  if (FinetuneObjective::of(c).is_of_pairs()) {
    data.rejected_training = examples(batch, length, 1);
    data.rejected_validation = examples(held, length, 1);
  }
  return data;
}

std::vector<Tensor> first_batch(const TrainingData& data, int64_t size, DeviceContext& device) {
  data::Loader loader(data.dataset, data::sequential(data.dataset->size()), {.batch = size});
  data::Sample batch;
  loader.next(batch);
  return data::to_tensors(batch, device);
}

// What stands between updates, while what these need is there: an evaluation, and a sample.
void look(Finetune& task, const std::optional<nn::ExponentialAverage>& average) {
  const NoGradScope no_grad;
  std::optional<nn::ExponentialAverage::Scope> averaged;
  if (average) averaged.emplace(*average);
  task.model().eval();
  (void)task.evaluate(0);
  (void)task.generate();
  task.model().train();
}

// The second step is the one that all later ones are.
void two_steps(Finetune& task, const Config& c, DeviceContext& blank) {
  for (const std::string& pattern : c.run.freeze) nn::freeze(task.model(), pattern);
  std::optional<nn::ExponentialAverage> average;
  if (c.training.ema > 0) average.emplace(task.model().parameters(), c.training.ema);
  Optimizers optimizers(
      task, c, [&c](int64_t) { return c.optimizer.lr; }, blank);
  TrainingStep step(task, optimizers, average ? &*average : nullptr, c, blank);
  const auto submit = [&] {
    step.submit(first_batch(task.training(), examples_per_update(c), blank), c.log.histograms_every > 0);
  };
  submit();
  look(task, average);
  submit();
}

}  // namespace

FinetuneNeed finetune_need(const Config& c, DeviceContext& device, uint64_t limit) {
  if (device.caps().target == Target::none)
    throw ValueError(fmt::format("[finetune] {} takes no kernels, so it has no plan", device.id()));
  check_size(c);
  Config one = c;  // limits of data are the real run's
  one.data.limit_train = one.data.limit_test = 0;
  const std::unique_ptr<DeviceContext> blank = blank_context(device);
  const IndexGuardScope unwatched(IndexGuard::off);  // a blank device would say that index 0 is wrong
  manual_seed(static_cast<uint64_t>(c.run.seed));
  FinetuneNeed need;
  {
    BaseModel base = load_finetune_base(one, *blank, false);
    need.weights = blank->memory().live_bytes;
    need.mapped = adopted_bytes(*blank);
    need.peak = need.weights;
    if (limit > 0 && need.weights > limit) return need;
    ChatData rows = full_rows(one, base.network->options().context);
    Finetune task(std::move(base), std::move(rows), one, *blank);
    two_steps(task, one, *blank);
    need.peak = blank->memory().peak_bytes;
    need.is_whole = true;
  }
  manual_seed(static_cast<uint64_t>(c.run.seed));
  return need;
}

uint64_t usable_memory(uint64_t device_bytes) { return device_bytes / 10 * 9; }

std::string memory_text(uint64_t bytes) {
  const auto wide = static_cast<double>(bytes);
  if (wide >= 0x1p30) return fmt::format("{:.2f} GiB", wide * 0x1p-30);
  return wide >= 0x1p20 ? fmt::format("{:.0f} MiB", wide * 0x1p-20) : fmt::format("{:.0f} KiB", wide * 0x1p-10);
}

}  // namespace heddle::train
