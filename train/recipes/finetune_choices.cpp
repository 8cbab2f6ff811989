#include "heddle/train/recipes/finetune_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/train/recipes/base_model.h"

namespace heddle::train {
namespace {

constexpr int64_t shortest_row = 32;

class Choices {
 public:
  Choices(const Config& asked, DeviceContext& device, FinetunePlan& plan)
      : asked_(asked), device_(device), plan_(plan), packs_(is_gguf(asked.model_value<Text>("base"))) {}

  void compare() {
    for (int64_t batch = asked_.training.batch; batch > 0 && !plan_.best; batch = next_batch(batch)) {
      for (const bool recompute : recomputations()) {
        for (const Text& method : methods()) look(with(method, recompute, batch));
      }
      take_best();
    }
    if (plan_.best) return;
    Config last = smallest();
    if (last.training.memory_budget == 0) {
      last.training.memory_budget = static_cast<int64_t>(plan_.limit);
      look(last);
      take_best();
    }
    if (!plan_.best) shorten(std::move(last));
  }

 private:
  bool is_given(std::string_view key) const { return asked_.given().contains(key); }

  std::vector<Text> methods() const {
    if (is_given("model.method") || !packs_) return {asked_.model_value<Text>("method")};
    return {"lora", "qlora"};
  }
  std::vector<bool> recomputations() const {
    const Text& word = asked_.model_value<Text>("recompute");
    if (word == "auto") return {false, true};
    return {word == "on"};
  }
  // The next smaller one of which the batch that is asked for is a multiple; 0: none.
  int64_t next_batch(int64_t batch) const {
    if (is_given("training.batch")) return 0;
    do --batch;
    while (batch > 0 && asked_.training.batch % batch != 0);
    return batch;
  }

  Config with(const Text& method, bool recompute, int64_t batch) const {
    Config c = asked_;
    c.model["method"] = method;
    c.model["recompute"] = Text(recompute ? "on" : "off");
    c.training.accumulate *= asked_.training.batch / batch;
    c.training.batch = batch;
    return c;
  }
  Config smallest() const {
    const int64_t batch = is_given("training.batch") ? asked_.training.batch : 1;
    return with(methods().back(), recomputations().back(), batch);
  }

  void look(const Config& config) { plan_.choices.push_back(looked_at(config)); }

  FinetuneChoice looked_at(const Config& config) {
    FinetuneChoice choice{.config = config, .need = {}, .refusal = {}};
    try {
      choice.need = finetune_need(config, device_, plan_.limit);
      choice.fits = choice.need.is_whole && choice.need.peak <= plan_.limit;
    } catch (const BudgetError& error) {
      choice.need.peak = error.needed();
      choice.need.is_whole = true;
    } catch (const DeviceError& error) {  // a tensor that is too large for it
      choice.refusal = error.what();
    }
    return choice;
  }

  void take_best() {
    for (size_t i = 0; i < plan_.choices.size() && !plan_.best; ++i) {
      if (plan_.choices[i].fits) plan_.best = i;
    }
  }

  void shorten(Config c) {
    for (int64_t length = c.model_value<Integer>("length") / 2; length >= shortest_row; length /= 2) {
      c.model["length"] = Integer(length);
      FinetuneChoice choice = looked_at(c);
      if (!choice.need.is_whole) return;  // the weights alone are too much
      if (!choice.fits) continue;
      plan_.shorter = std::move(choice);
      return;
    }
  }

  const Config& asked_;
  DeviceContext& device_;
  FinetunePlan& plan_;
  bool packs_;
};

}  // namespace

uint64_t FinetunePlan::least() const {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const FinetuneChoice& choice : choices) {
    if (choice.refusal.empty()) least = std::min(least, choice.need.peak);
  }
  return least;
}

FinetunePlan plan_finetune(const Config& config, DeviceContext& device, uint64_t memory) {
  FinetunePlan plan;
  plan.memory = memory > 0 ? memory : device.caps().memory_bytes;
  if (plan.memory == 0)
    throw ValueError(fmt::format("[plan] {} does not say how much memory it has; give --memory", device.id()));
  plan.limit = usable_memory(plan.memory);
  if (const auto budget = static_cast<uint64_t>(config.training.memory_budget); budget > 0)
    plan.limit = std::min(plan.limit, budget);
  Choices(config, device, plan).compare();
  return plan;
}

}  // namespace heddle::train
