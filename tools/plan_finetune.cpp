#include "tools/plan_finetune.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "heddle/core/base/error.h"
#include "heddle/train/recipes/finetune_choices.h"
#include "tools/finetune_options.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

using train::FinetuneChoice;
using train::FinetunePlan;
using train::memory_text;

struct PlanFinetuneOptions {
  FinetuneOptions run;
  uint64_t memory = 0;
};

bool recomputes(const FinetuneChoice& choice) { return choice.config.model_value<train::Text>("recompute") == "on"; }

// What a choice adds to the command line; what was asked for as it was said.
std::string flags_of(const FinetuneChoice& choice) {
  const train::Config& c = choice.config;
  std::string text = finetune_flag(c, "model.method") + " " + finetune_flag(c, "model.recompute");
  if (!c.model_value<train::Text>("quantise").empty()) text += " " + finetune_flag(c, "model.quantise");
  if (c.optimizer.states != "f32") text += " " + finetune_flag(c, "optimizer.states");
  for (const char* key : {"training.batch", "model.length"}) text += " " + finetune_flag(c, key);
  if (c.training.accumulate > 1) text += " " + finetune_flag(c, "training.accumulate");
  if (c.training.memory_budget > 0) text += " " + finetune_flag(c, "training.memory_budget");
  return text;
}

std::string command_of(const FinetuneChoice& choice) {
  const train::Config& c = choice.config;
  std::string text = "heddle finetune " + shell_word(c.model_value<train::Text>("base"));
  if (!c.given().contains("data.path")) text += " --data FILE";
  const std::string chosen = flags_of(choice);
  for (const std::string& key : c.given()) {
    const std::string flag = key == "model.base" ? "" : finetune_flag(c, key);
    const std::string name = " " + flag.substr(0, flag.find(' ')) + " ";
    if (!flag.empty() && (" " + chosen + " ").find(name) == std::string::npos) text += " " + flag;
  }
  return text + " " + chosen;
}

Json to_json(const FinetuneChoice& choice) {
  const train::Config& c = choice.config;
  Json json{{"method", c.model_value<train::Text>("method")},
            {"recompute", recomputes(choice)},
            {"batch", c.training.batch},
            {"accumulate", c.training.accumulate},
            {"length", c.model_value<train::Integer>("length")},
            {"quantise", c.model_value<train::Text>("quantise")},
            {"optimizer", c.optimizer.name},
            {"optimizer_states", c.optimizer.states},
            {"memory_budget", c.training.memory_budget}};
  json.update({{"weights", choice.need.weights},
               {"mapped", choice.need.mapped},
               {"peak", choice.need.peak},
               {"at_least", !choice.need.is_whole},
               {"fits", choice.fits}});
  if (!choice.refusal.empty()) json["refusal"] = one_line(choice.refusal);
  return json;
}

Json to_json(const FinetunePlan& plan, const std::string& model, const std::string& device) {
  Json json{{"model", model}, {"device", device}, {"memory", plan.memory}, {"usable", plan.limit}};
  json["choices"] = Json::array();
  for (const FinetuneChoice& choice : plan.choices) json["choices"].push_back(to_json(choice));
  if (plan.best) {
    json.update({{"best", *plan.best}, {"command", command_of(plan.choices[*plan.best])}});
  } else {
    if (const auto least = plan.least()) json["missing"] = *least - plan.limit;
    if (plan.shorter) json["shorter"] = to_json(*plan.shorter);
  }
  return json;
}

// "qlora nf4", "full 8bit".
std::string form_of(const train::Config& c) {
  std::string text = c.model_value<train::Text>("method");
  if (const auto& blocks = c.model_value<train::Text>("quantise"); !blocks.empty()) text += " " + blocks;
  return c.optimizer.states == "f32" ? text : text + " " + c.optimizer.states;
}

std::string row_of(const FinetuneChoice& choice, bool best) {
  const train::Config& c = choice.config;
  const std::string need = (choice.need.is_whole ? "" : "> ") + memory_text(choice.need.peak);
  return fmt::format("{:<2}{:<12}{:<11}{:<8}{:<12}{:>12}{:>12}  {}\n", best ? "*" : "", form_of(c),
                     recomputes(choice) ? "on" : "off", fmt::format("{} x {}", c.training.batch, c.training.accumulate),
                     c.training.memory_budget > 0 ? memory_text(static_cast<uint64_t>(c.training.memory_budget)) : "",
                     choice.refusal.empty() ? need : "-",
                     choice.need.weights > 0 ? memory_text(choice.need.weights) : "-",
                     !choice.refusal.empty() ? one_line(choice.refusal)
                     : choice.fits           ? "fits"
                                             : "");
}

void show(const FinetunePlan& plan, const std::string& model, const DeviceContext& device) {
  const train::Config& c = plan.choices.front().config;
  std::string text = fmt::format("{} on {}: {}, of which a run may hold {}\nrows of {} tokens, optimizer {}\n", model,
                                 device.id(), memory_text(plan.memory), memory_text(plan.limit),
                                 c.model_value<train::Integer>("length"), c.optimizer.name);
  text += fmt::format("  {:<12}{:<11}{:<8}{:<12}{:>12}{:>12}\n", "method", "recompute", "batch", "budget", "needs",
                      "weights");
  for (size_t i = 0; i < plan.choices.size(); ++i) text += row_of(plan.choices[i], plan.best == i);
  if (const uint64_t mapped = plan.choices.back().need.mapped; mapped > 0)
    text += fmt::format("{} of packed weights stay in the file, which is memory of the host's\n", memory_text(mapped));
  if (plan.best) text += fmt::format("* {}\n", command_of(plan.choices[*plan.best]));
  print_out(text);
}

std::string missing_of(const FinetunePlan& plan, const std::string& model) {
  const std::string help =
      plan.shorter ? fmt::format("{} would fit, with {}", flags_of(*plan.shorter), memory_text(plan.shorter->need.peak))
                   : std::string("a smaller model, or one in blocks of fewer bits with --method qlora, would help");
  const std::optional<uint64_t> least = plan.least();
  if (!least) return fmt::format("[plan] {} cannot be: {}; {}", model, one_line(plan.choices.back().refusal), help);
  return fmt::format("[plan] {} does not fit: at least {} are needed and a run may hold {}, so {} are missing; {}",
                     model, memory_text(*least), memory_text(plan.limit), memory_text(*least - plan.limit), help);
}

void run(const PlanFinetuneOptions& o) {
  const train::Config config = o.run.config();
  DeviceContext& device = open_device(config.run.device, false);
  const FinetunePlan plan = train::plan_finetune(config, device, o.memory);
  if (o.run.json)
    print_json(to_json(plan, o.run.model, device.id()));
  else
    show(plan, o.run.model, device);
  if (!plan.best) throw ValueError(missing_of(plan, o.run.model));
}

}  // namespace

CLI::App* add_plan_finetune(CLI::App& plan) {
  CLI::App* command = plan.add_subcommand("finetune", "Print how fine-tuning a model fits a device's memory");
  auto options = std::make_shared<PlanFinetuneOptions>();
  PlanFinetuneOptions& o = *options;
  o.run.add_to(*command);
  command->add_option("--memory", o.memory, "Memory of the device, e.g. 8GiB, instead of what it says of itself")
      ->transform(CLI::AsSizeValue(false));
  add_json_option(*command, o.run.json);
  command->footer(
      "What is said stays; the method, --recompute and smaller batches are compared where they are left open. Of the "
      "model only the front of its files is read, and --data is not needed. Exit code 2 where nothing "
      "fits.\nExample:\n  heddle plan finetune llama-7b.gguf --length 1024 --rank 16 --device null:0 --memory 8GiB");
  command->callback([options] { run(*options); });
  return command;
}

}  // namespace heddle::tools
