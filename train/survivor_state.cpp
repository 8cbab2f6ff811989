#include "heddle/train/survivor_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/train/sharded_checkpoint.h"

namespace heddle::train {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const StepRecord& r) {
  Json json = {
      {"step", r.step},      {"epoch", r.epoch}, {"loss", r.loss}, {"lr", r.lr}, {"samples", r.samples_per_second},
      {"seconds", r.seconds}};
  if (r.grad_norm) json["norm"] = *r.grad_norm;
  if (r.loss_scale) json["scale"] = *r.loss_scale;
  if (r.skipped) json["skipped"] = *r.skipped;
  json["figures"] = r.figures;
  return json;
}

StepRecord record_of(const Json& json) {
  StepRecord r;
  r.step = json.at("step");
  r.epoch = json.at("epoch");
  r.loss = json.at("loss");
  r.lr = json.at("lr");
  r.samples_per_second = json.at("samples");
  r.seconds = json.at("seconds");
  if (json.contains("norm")) r.grad_norm = json["norm"].get<double>();
  if (json.contains("scale")) r.loss_scale = json["scale"].get<double>();
  if (json.contains("skipped")) r.skipped = json["skipped"].get<int64_t>();
  r.figures = json.at("figures").get<std::vector<std::pair<std::string, double>>>();
  return r;
}

// All of a state but the elements of its tensors.
std::string header_of(const SurvivorState& state) {
  Json json = {
      {"step", state.step}, {"metadata", state.metadata}, {"tensors", Json::array()}, {"untold", Json::array()}};
  for (const auto& [name, tensor] : state.tensors)
    json["tensors"].push_back(
        {name, static_cast<int>(tensor.dtype), std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())});
  for (const StepRecord& record : state.untold) json["untold"].push_back(json_of(record));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Tensors keep the elements that `mine` has of them.
SurvivorState state_of(const std::string& header, SurvivorState mine) {
  const Json json = Json::parse(header);
  SurvivorState state{json.at("step"), {}, json.at("metadata"), {}};
  for (const Json& tensor : json.at("tensors")) {
    const std::string name = tensor.at(0);
    HostTensor& made = state.tensors[name];
    made.dtype = static_cast<DType>(tensor.at(1).get<int>());
    for (const Json& dim : tensor.at(2)) made.shape.push_back(dim.get<int64_t>());
    const auto own = mine.tensors.find(name);
    if (own != mine.tensors.end()) made.bytes = std::move(own->second.bytes);
    made.bytes.resize(static_cast<size_t>(made.shape.numel()) * size_of(made.dtype));
  }
  for (const Json& record : json.at("untold")) state.untold.push_back(record_of(record));
  return state;
}

}  // namespace

SurvivorState on_host(const Checkpoint& checkpoint, int64_t step, std::vector<StepRecord> untold) {
  SurvivorState state{step, {}, checkpoint.metadata, std::move(untold)};
  for (const auto& [name, tensor] : checkpoint.tensors)
    state.tensors[name] = {tensor.dtype(), tensor.shape(), tensor.to_bytes()};
  return state;
}

Checkpoint to_device(const SurvivorState& state, DeviceContext& device, States states) {
  WholeCheckpoint whole;
  whole.file.metadata = state.metadata;
  for (const auto& [name, tensor] : state.tensors)
    whole.file.tensors.emplace(name, TensorBytes{tensor.dtype, tensor.shape, tensor.bytes});
  return to_device(std::move(whole), &device, states);
}

SurvivorState most_advanced(Replicas& replicas, SurvivorState mine) {
  const std::vector<int64_t> steps = replicas.gather({mine.step});
  const auto best = std::ranges::max_element(steps);  // the first of several
  const auto source = static_cast<int>(best - steps.begin());
  const bool alike = std::ranges::all_of(steps, [&](int64_t step) { return step == *best; });
  const std::string header = replicas.of_rank(source, header_of(mine));
  SurvivorState state = state_of(header, std::move(mine));
  if (alike) return state;
  for (auto& [name, tensor] : state.tensors) {
    const Shape size{static_cast<int64_t>(tensor.bytes.size())};
    replicas.wait(replicas.all().broadcast(tensor.bytes.data(), DType::u8, size, source));
  }
  return state;
}

void check_survivable(const Config& config, const Replicas& replicas) {
  const auto refuse = [](const std::string& what) {
    throw ValueError(
        fmt::format("[train] --elastic with {}: ranks that are left go on where they share batches, and "
                    "states of optimizers, alone",
                    what));
  };
  if (replicas.share_model()) refuse(fmt::format("--mesh {}", replicas.mesh()));
  if (config.training.parts > 0) refuse("--parts");
  if (config.training.compress != "none") refuse("--compress");
  if (config.training.sharding == "zero3") refuse("--sharding zero3");
  if (replicas.mixed()) refuse("devices that differ");
}

}  // namespace heddle::train
