#include "heddle/train/recipes/finetune_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/train/option_uses.h"
#include "heddle/train/recipes/base_model.h"

namespace heddle::train {
namespace {

constexpr int64_t shortest_row = 32;

// What the weights are, and the optimizer's moments.
struct Form {
  Text method, quantise = {}, states = {};
  bool is_hopeless = false;  // at every batch
};

bool has_small_states(const Config& config) {
  return std::ranges::any_of(
      option_uses(), [&](const OptionUse& use) { return use.option == "optimizer.states" && use.applies(config); });
}

class Choices {
 public:
  Choices(const Config& asked, DeviceContext& device, FinetunePlan& plan)
      : asked_(asked), device_(device), plan_(plan), forms_(forms()) {}

  void compare() {
    for (int64_t batch = asked_.training.batch; batch > 0 && !plan_.best; batch = next_batch(batch)) {
      for (const bool recompute : recomputations()) {
        const bool is_last = next_batch(batch) == 0 && recompute == recomputations().back();
        for (Form& form : forms_) look(form, recompute, batch, is_last);
      }
      take_best();
    }
    if (!plan_.best) try_less(smallest());
  }

 private:
  bool is_given(std::string_view key) const { return asked_.given().contains(key); }

  // Adapters beside floating point, which is faster, before blocks.
  std::vector<Form> forms() const {
    const Text &method = asked_.model_value<Text>("method"), &quantise = asked_.model_value<Text>("quantise");
    std::vector<Form> forms;
    if (!is_given("model.method") && quantise.empty())
      forms = {{"lora"}, {"qlora", is_gguf(asked_.model_value<Text>("base")) ? "" : "nf4"}};
    else
      forms = {{is_given("model.method") ? method : "qlora", quantise}};
    if (method == "full" && !is_given("optimizer.states") && has_small_states(asked_))
      forms.push_back({method, quantise, "8bit"});
    return forms;
  }
  std::vector<bool> recomputations() const {
    const Text& word = asked_.model_value<Text>("recompute");
    if (asked_.model_value<Flag>("offload")) return {true};
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

  Config with(const Form& form, bool recompute, int64_t batch) const {
    Config c = asked_;
    c.model["method"] = form.method;
    c.model["quantise"] = form.quantise;
    if (!form.states.empty()) c.optimizer.states = form.states;
    c.model["recompute"] = Text(recompute ? "on" : "off");
    c.training.accumulate *= asked_.training.batch / batch;
    c.training.batch = batch;
    return c;
  }
  // Of what was looked at to its end, what needs least.
  Config smallest() const {
    const FinetuneChoice* least = nullptr;
    for (const FinetuneChoice& choice : plan_.choices) {
      if (choice.need.is_whole && (least == nullptr || choice.need.peak < least->need.peak)) least = &choice;
    }
    if (least != nullptr) return least->config;
    return with(forms_.back(), recomputations().back(), is_given("training.batch") ? asked_.training.batch : 1);
  }

  // The planner computes more again; then smaller updates where nobody asked for the batch; then shorter rows.
  void try_less(Config last) {
    const int64_t asked = last.training.memory_budget;
    if (asked == 0) last.training.memory_budget = static_cast<int64_t>(plan_.limit);
    if (asked == 0) look(last);
    last.training.memory_budget = asked;
    if (!plan_.best && last.training.accumulate > asked_.training.accumulate) {
      last.training.accumulate = asked_.training.accumulate;
      look(last);
    }
    if (!plan_.best) shorten(std::move(last));
  }

  void look(const Config& config) {
    plan_.choices.push_back(looked_at(config));
    take_best();
  }

  // The last of a form is looked at in any case: what it lacks is what is missing.
  void look(Form& form, bool recompute, int64_t batch, bool is_last) {
    const Config config = with(form, recompute, batch);
    if (form.is_hopeless || (!is_last && is_above(config))) return;
    form.is_hopeless = plan_.choices.emplace_back(looked_at(config)).is_never;
  }

  // Whether the same with a larger batch says so: what it needs beside the weights shrinks with the batch at most.
  bool is_above(const Config& c) const {
    return std::ranges::any_of(plan_.choices, [&](const FinetuneChoice& seen) {
      if (!seen.need.is_whole || seen.config.model != c.model || seen.config.optimizer.states != c.optimizer.states)
        return false;
      const auto beside = static_cast<double>(seen.need.peak - seen.need.weights);
      const double share = static_cast<double>(c.training.batch) / static_cast<double>(seen.config.training.batch);
      return static_cast<double>(seen.need.weights) + beside * share > static_cast<double>(plan_.limit);
    });
  }

  FinetuneChoice looked_at(const Config& config) {
    FinetuneChoice choice{.config = config, .need = {}, .refusal = {}};
    try {
      choice.need = finetune_need(config, device_, plan_.limit);
      choice.fits = choice.need.is_whole && choice.need.peak <= plan_.limit;
      choice.is_never = !choice.need.is_whole;
    } catch (const BudgetError& error) {
      choice.need.peak = error.needed();
      choice.need.is_whole = true;
    } catch (const DeviceError& error) {  // a tensor that is too large for it
      choice.refusal = error.what();
    } catch (const ValueError& error) {  // rows that are no whole blocks of what nobody asked for
      if (config.model_value<Text>("quantise") == asked_.model_value<Text>("quantise")) throw;
      choice.refusal = error.what();
      choice.is_never = true;
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
      if (choice.is_never) return;
      if (!choice.fits) continue;
      plan_.shorter = std::move(choice);
      return;
    }
  }

  const Config& asked_;
  DeviceContext& device_;
  FinetunePlan& plan_;
  std::vector<Form> forms_;
};

}  // namespace

std::optional<uint64_t> FinetunePlan::least() const {
  std::optional<uint64_t> least;
  for (const FinetuneChoice& choice : choices) {
    if (choice.refusal.empty()) least = std::min(least.value_or(choice.need.peak), choice.need.peak);
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
