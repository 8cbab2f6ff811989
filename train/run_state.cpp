#include "heddle/train/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/fingerprint.h"
#include "heddle/train/prefix.h"

namespace heddle::train {
namespace {

constexpr std::string_view model_prefix = "model.", average_prefix = "average.";

// What must be the same for a resumed run to repeat the losses of an uninterrupted one.
Metadata identity(const RunState& state, const Config& c) {
  return {
      {"recipe", c.run.recipe},
      {"seed", std::to_string(c.run.seed)},
      {"batch", std::to_string(c.training.batch)},
      {"accumulate",
       c.training.parts > 0 ? fmt::format("{} parts", c.training.parts) : std::to_string(c.training.accumulate)},
      {"optimizer", c.optimizer.name + (c.optimizer.states == "f32" ? "" : " of " + c.optimizer.states + " states")},
      {"precision", c.training.precision},
      {"ema", fmt::format("{}", c.training.ema)},
      {"examples",
       state.task.training().stream ? "of a stream" : std::to_string(state.task.training().dataset->size())}};
}

// "lr best bad cooling", as checkpoint_of() writes it.
std::optional<nn::Plateau::State> parse_plateau(std::string_view text) {
  const auto word = [&] {
    const std::string_view first = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(first.size() + 1, text.size()));
    return first;
  };
  const auto lr = parse_number<double>(word()), best = parse_number<double>(word());
  const auto bad = parse_number<int64_t>(word()), cooling = parse_number<int64_t>(word());
  if (!lr || !best || !bad || !cooling || !text.empty()) return std::nullopt;
  return nn::Plateau::State{*lr, *best, *bad, *cooling};
}

struct Reader {
  const std::string& path;
  const Metadata& metadata;

  const std::string& text(const std::string& key) const {
    const auto found = metadata.find(key);
    if (found == metadata.end())
      throw IoError(
          fmt::format("[checkpoint] {}: no '{}' in its metadata; not a checkpoint of heddle train", path, key));
    return found->second;
  }
  template <class T>
  T number(const std::string& key) const {
    const std::string& digits = text(key);
    const std::optional<T> value = parse_number<T>(digits);
    if (!value || *value < 0)
      throw IoError(fmt::format("[checkpoint] {}: {} '{}' is not a number", path, key, shortened(digits)));
    return *value;
  }
  nn::Plateau::State plateau() const {
    const std::optional<nn::Plateau::State> state = parse_plateau(text("plateau"));
    if (!state)
      throw IoError(
          fmt::format("[checkpoint] {}: the schedule's state '{}' cannot be read", path, shortened(text("plateau"))));
    return *state;
  }
  void require_equal(const std::string& key, const std::string& expected) const {
    if (text(key) != expected)
      throw ValueError(fmt::format("[checkpoint] {} was made with {} {}, this run has {}", path, key,
                                   shortened(text(key)), expected));
  }
};

}  // namespace

std::array<std::string, 2> names_of_parameter(const std::string& path, size_t place) {
  return {std::string(model_prefix) + path, fmt::format("{}{}", average_prefix, place)};
}

Checkpoint checkpoint_of(const RunState& state, const Config& config, const Place& place) {
  TensorMap tensors;
  add_with_prefix(tensors, model_prefix, state.whole ? state.whole->model : state.task.model().state_dict());
  add_with_prefix(tensors, optimizer_prefix, state.optimizers.state_dict());
  if (state.average != nullptr) add_with_prefix(tensors, average_prefix, state.average->state_dict());
  if (state.whole != nullptr) add_with_prefix(tensors, average_prefix, state.whole->average);
  Metadata metadata = state.task.metadata();
  metadata.merge(identity(state, config));
  metadata["config"] = config.str();
  metadata["code"] = code_fingerprint();
  metadata["step"] = std::to_string(place.step);
  if (state.task.training().stream) {
    metadata["stream.pass"] = std::to_string(place.stream.epoch);
    metadata["stream.batch"] = std::to_string(place.stream.batch);
  }
  metadata["random.seed"] = std::to_string(default_generator().seed);
  metadata["random.offset"] = std::to_string(default_generator().offset);
  if (state.plateau != nullptr) {
    const nn::Plateau::State plateau = state.plateau->state();
    metadata["plateau"] = fmt::format("{} {} {} {}", plateau.lr, plateau.best, plateau.bad, plateau.cooling);
  }
  for (const auto& callback : state.callbacks) metadata.merge(callback->state());
  return {std::move(tensors), std::move(metadata)};
}

Place restore(const Checkpoint& file, const std::string& path, const RunState& state, const Config& config) {
  const Reader reader{path, file.metadata};
  for (const auto& [key, value] : identity(state, config)) reader.require_equal(key, value);
  Place place{reader.number<int64_t>("step")};
  if (state.task.training().stream)
    place.stream = {reader.number<uint64_t>("stream.pass"), reader.number<int64_t>("stream.batch")};
  const auto seed = reader.number<uint64_t>("random.seed"), offset = reader.number<uint64_t>("random.offset");
  const nn::Plateau::State plateau = state.plateau != nullptr ? reader.plateau() : nn::Plateau::State();
  restore_weights(file, state);
  if (state.optimizers.keeps_shards())
    state.optimizers.load_shards(with_prefix(file.on_host(), optimizer_prefix));
  else
    state.optimizers.load_state_dict(with_prefix(file.tensors, optimizer_prefix));
  default_generator().seed = seed;
  default_generator().offset = offset;
  if (state.plateau != nullptr) state.plateau->set_state(plateau);
  for (const auto& callback : state.callbacks) callback->load_state(file.metadata);
  return place;
}

void restore_weights(const Checkpoint& file, const RunState& state) {
  if (state.shared != nullptr)
    return state.shared->load(with_prefix(file.tensors, model_prefix), with_prefix(file.tensors, average_prefix));
  state.task.model().load_state_dict(with_prefix(file.tensors, model_prefix));
  if (state.average != nullptr) state.average->load_state_dict(with_prefix(file.tensors, average_prefix));
}

nn::StateDict model_state(const Checkpoint& file) {
  nn::StateDict inside = with_prefix(file.tensors, model_prefix);
  return inside.empty() ? file.tensors : inside;
}

}  // namespace heddle::train
