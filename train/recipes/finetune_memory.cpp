#include "heddle/train/recipes/finetune_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "heddle/core/base/error.h"
#include "heddle/train/recipes/finetune_need.h"

namespace heddle::train {
namespace {

constexpr const char* helps =
    "a smaller batch with --accumulate, a smaller --length, --method qlora or a smaller --rank need less; heddle plan "
    "finetune lists what fits";

Config with_recompute(const Config& c, bool on, int64_t budget = 0) {
  Config changed = c;
  changed.model["recompute"] = Text(on ? "on" : "off");
  changed.training.memory_budget = budget;
  return changed;
}

struct Choice {
  bool recompute = false;
  int64_t budget = 0;  // that the planner has to keep; 0: none
  uint64_t peak = 0, without = 0;
};

Choice chosen(const Config& c, DeviceContext& device, uint64_t limit) {
  Choice choice;
  const FinetuneNeed kept = finetune_need(with_recompute(c, false), device, limit);
  choice.peak = choice.without = kept.peak;
  if (kept.is_whole && kept.peak <= limit) return choice;
  if (!kept.is_whole) throw BudgetError("", kept.weights);
  choice.recompute = true;
  choice.peak = finetune_need(with_recompute(c, true), device).peak;
  if (choice.peak <= limit) return choice;
  choice.budget = static_cast<int64_t>(limit);
  choice.peak = finetune_need(with_recompute(c, true, choice.budget), device).peak;
  // A budget is of the steps; evaluations have none, and may take the tenth that is left to others.
  if (c.training.memory_budget == 0 && choice.peak > device.caps().memory_bytes) throw BudgetError("", choice.peak);
  return choice;
}

[[noreturn]] void refuse(const Config& c, const DeviceContext& device, uint64_t limit, uint64_t needed) {
  const std::string there = c.training.memory_budget > 0
                                ? fmt::format("--memory-budget allows {}", memory_text(limit))
                                : fmt::format("a run may hold {} of {}", memory_text(limit), device.id());
  throw BudgetError(fmt::format("[finetune] {}: {} at least are needed, with blocks computed again, so {} are missing; "
                                "{}",
                                there, memory_text(needed), memory_text(needed - std::min(needed, limit)), helps),
                    needed);
}

}  // namespace

bool recomputes(const Config& c) {
  const Text& word = c.model_value<Text>("recompute");
  const bool offloads = c.model_value<Flag>("offload");
  if (offloads && word == "off")
    throw ValueError("[finetune] --offload moves what --recompute keeps; with --no-recompute there is nothing to move");
  for (const char* known : {"on", "off", "auto"}) {
    if (word == known) return word == "on" || offloads;
  }
  throw ValueError(fmt::format("[finetune] model.recompute is {}; it is on, off or auto", word));
}

std::vector<std::string> settle_memory(Config& c, DeviceContext& device) {
  recomputes(c);
  if (c.model_value<Text>("recompute") != "auto") return {};
  if (c.model_value<Flag>("offload")) {
    c.model["recompute"] = Text("on");
    return {};
  }
  c.model["recompute"] = Text("off");
  const uint64_t limit = c.training.memory_budget > 0 ? static_cast<uint64_t>(c.training.memory_budget)
                                                      : usable_memory(device.caps().memory_bytes);
  if (limit == 0 || device.caps().target == Target::none) return {};
  Choice choice;
  try {
    choice = chosen(c, device, limit);
  } catch (const BudgetError& error) {
    refuse(c, device, limit, error.needed());
  }
  if (choice.recompute) c.model["recompute"] = Text("on");
  if (c.training.memory_budget == 0) c.training.memory_budget = choice.budget;
  const std::string what = !choice.recompute   ? "blocks keep what they compute"
                           : choice.budget > 0 ? "blocks are computed again, and more where the planner must"
                                               : "blocks are computed again";
  return {
      fmt::format("[finetune] about {} of the {} that there are: {}", memory_text(choice.peak), memory_text(limit),
                  choice.recompute ? fmt::format("{}, else it would be {}", what, memory_text(choice.without)) : what)};
}

}  // namespace heddle::train
