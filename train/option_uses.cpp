#include "heddle/train/option_uses.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"

namespace heddle::train {
namespace {

constexpr std::string_view positive = "> 0";

bool is_positive(const Value& value) {
  if (const auto* integer = std::get_if<Integer>(&value)) return *integer > 0;
  const auto* number = std::get_if<Number>(&value);
  return number != nullptr && *number > 0;
}

std::string plain_text(const Value& value) {
  const auto* text = std::get_if<Text>(&value);
  return text != nullptr ? *text : toml_text(value);
}

// "sgd", "sgd and muon", "sgd, rmsprop and muon".
std::string enumeration(const std::vector<std::string_view>& names) {
  std::string text(names.front());
  for (size_t i = 1; i < names.size(); ++i)
    text += fmt::format("{}{}", i + 1 < names.size() ? ", " : " and ", names[i]);
  return text;
}

// Who would use it.
std::string users(const OptionUse& use) {
  const bool names = std::holds_alternative<Text>(find_config_row(use.beside)->initial);
  if (names)
    return fmt::format("only {} {} it: {} is", enumeration(use.values), use.values.size() == 1 ? "uses" : "use",
                       use.beside);
  return fmt::format("it counts only where {} is {}: it is", use.beside,
                     use.values.front() == positive ? "above 0" : use.values.front());
}

}  // namespace

std::span<const OptionUse> option_uses() {
  static const std::vector<OptionUse> table = {
      {"checkpoint.use_best", "checkpoint.keep_best", {"true"}},
      {"data.prefetch", "data.workers", {positive}},
      {"optimizer.decay_all", "optimizer.weight_decay", {positive}},
      {"optimizer.momentum", "optimizer.name", {"sgd", "rmsprop", "muon"}},
      {"optimizer.nesterov", "optimizer.name", {"sgd", "muon"}},
      {"optimizer.alpha", "optimizer.name", {"rmsprop"}},
      {"optimizer.beta1", "optimizer.name", {"adam", "adamw", "lion", "lamb", "muon"}},
      {"optimizer.beta2", "optimizer.name", {"adam", "adamw", "lion", "lamb", "muon"}},
      {"optimizer.eps", "optimizer.name", {"rmsprop", "adagrad", "adam", "adamw", "lamb", "muon"}},
      {"optimizer.states", "optimizer.name", {"sgd", "adam", "adamw", "lion"}},
      {"training.chunks", "training.pipeline", {"interleaved"}},
      {"schedule.least", "schedule.name", {"linear", "cosine", "cosine-restarts", "cyclical", "plateau"}},
      {"schedule.gamma", "schedule.name", {"step", "multi-step", "exponential", "plateau"}},
      {"schedule.every", "schedule.name", {"step", "cosine-restarts", "cyclical"}},
      {"schedule.milestones", "schedule.name", {"multi-step"}},
      {"schedule.power", "schedule.name", {"polynomial"}},
      {"schedule.patience", "schedule.name", {"plateau"}},
      {"training.compress_rank", "training.compress", {"powersgd"}},
      {"training.compress_factors", "training.compress", {"powersgd"}},
      {"training.compress_share", "training.compress", {"topk"}},
      {"training.epochs", "training.steps", {"0"}},
      {"training.loss_scale", "training.precision", {"f16"}},
      {"training.loss_scale_every", "training.precision", {"f16"}},
  };
  return table;
}

bool OptionUse::applies(const Config& config) const {
  const Value value = find_config_row(beside)->get(config);
  return std::ranges::any_of(values, [&](std::string_view wanted) {
    return wanted == positive ? is_positive(value) : plain_text(value) == wanted;
  });
}

void refuse_unused_options(const Config& config, const Config& defaults) {
  std::vector<std::string> keys = config.differences(defaults);
  keys.insert(keys.end(), config.given().begin(), config.given().end());
  for (const OptionUse& use : option_uses()) {
    if (std::ranges::find(keys, use.option) == keys.end() || use.applies(config)) continue;
    const ConfigRow& row = *find_config_row(use.option);
    throw ValueError(fmt::format("[config] {} ({}) is {}, but {} {}", row.flag, row.key, toml_text(row.get(config)),
                                 users(use), plain_text(find_config_row(use.beside)->get(config))));
  }
}

}  // namespace heddle::train
