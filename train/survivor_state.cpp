#include "heddle/train/survivor_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/train/prefix.h"
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

template <class Bytes>
void take_from(Replicas& replicas, int source, Bytes& bytes) {
  replicas.wait(replicas.all().broadcast(bytes.data(), DType::u8, Shape{static_cast<int64_t>(bytes.size())}, source));
}

std::string text_of(Replicas& replicas, int source, std::string mine) {
  auto length = static_cast<int64_t>(mine.size());
  replicas.wait(replicas.all().broadcast(&length, DType::i64, Shape(), source));
  mine.resize(static_cast<size_t>(length));
  take_from(replicas, source, mine);
  return mine;
}

}  // namespace

SurvivorState on_host(const Checkpoint& checkpoint, int64_t step, std::vector<StepRecord> untold) {
  SurvivorState state{step, {}, checkpoint.metadata, std::move(untold)};
  for (const auto& [name, tensor] : checkpoint.tensors)
    state.tensors[name] = {tensor.dtype(), tensor.shape(), tensor.to_bytes()};
  return state;
}

Checkpoint to_device(const SurvivorState& state, DeviceContext& device, States states) {
  Checkpoint checkpoint{{}, state.metadata, nullptr};
  WholeCheckpoint here;
  for (const auto& [name, tensor] : state.tensors) {
    here.file.tensors.emplace(name, TensorBytes{tensor.dtype, tensor.shape, tensor.bytes});
    if (states == States::on_device || !name.starts_with(optimizer_prefix))
      checkpoint.tensors.emplace(
          name, Tensor::from_bytes(tensor.bytes.data(), static_cast<size_t>(tensor.shape.numel()), tensor.dtype,
                                   tensor.shape, &device));
  }
  if (states == States::on_host) checkpoint.bytes = std::make_shared<const WholeCheckpoint>(std::move(here));
  return checkpoint;
}

SurvivorState most_advanced(Replicas& replicas, SurvivorState mine) {
  const std::vector<int64_t> steps = replicas.gather({mine.step});
  const auto best = std::ranges::max_element(steps);  // the first of several
  const auto source = static_cast<int>(best - steps.begin());
  const bool alike = std::ranges::all_of(steps, [&](int64_t step) { return step == *best; });
  const std::string header = text_of(replicas, source, header_of(mine));
  SurvivorState state = state_of(header, std::move(mine));
  for (auto& [name, tensor] : state.tensors) {
    if (!alike) take_from(replicas, source, tensor.bytes);
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
