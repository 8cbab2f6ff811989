#include "heddle/train/sharded_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/graph/node.h"
#include "heddle/io/sha256.h"
#include "heddle/nn/sizes.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

Tensor on_host(std::span<const float> values, const Shape& shape) {
  return Tensor::from_bytes(values.data(), values.size(), DType::f32, shape, &device_of_whole_values());
}

// Under the same handle; gradients collect there as before.
void make_lent(Tensor& parameter, size_t group) {
  NodePtr leaf = make_lent_leaf(parameter.device(), parameter.shape(), parameter.dtype(), group);
  leaf->tracks = true;
  leaf->grad_target = parameter.impl();
  parameter.impl()->set_node(std::move(leaf));
}

}  // namespace

// Its memory is the host's.
DeviceContext& device_of_whole_values() { return device("reference:0"); }

bool shares_parameters(const Config& config, const Replicas* replicas) {
  return config.training.sharding == "zero3" && replicas != nullptr &&
         (!replicas->alone() || config.training.parts > 0);
}

ShardedParameters::ShardedParameters(nn::Module& model, const ShardLayout& layout, const Config& config,
                                     Replicas& replicas)
    : model_(model),
      layout_(layout),
      replicas_(replicas),
      keeps_(!config.training.reshard),
      decay_(config.training.ema),
      parameters_(model.parameters()),
      shards_(layout.shards_of(replicas.owner())),
      groups_(layout.buckets().size()) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (parameter.requires_grad() && parameter.dtype() != DType::f32)
      throw ValueError(fmt::format("[train] --sharding zero3: the parameter {} is {}; ranks share those of f32", name,
                                   name_of(parameter.dtype())));
  }
  first_sha256_ = parameters_sha256(model);
  own_.assign(static_cast<size_t>(std::max(layout.elements_of(replicas.owner()), int64_t{1})), 0);
  take_values();
  if (decay_ > 0) average_ = own_;
}

void ShardedParameters::take_values() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].requires_grad()) take_own(parameters_[i], i, own_);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const size_t i : layout_.buckets()[g].parameters) make_lent(parameters_[i], g);
  }
}

// Of one parameter, wherever its elements lie among the rank's.
void ShardedParameters::take_own(const Tensor& whole, size_t parameter, std::vector<float>& own) const {
  std::vector<float> values;
  int64_t at = 0;
  for (const nn::Shard& shard : shards_) {
    if (shard.parameter == parameter) {
      if (values.empty()) values = floats_of(whole.detach().to(DType::f32));
      std::copy(values.begin() + shard.begin, values.begin() + shard.end, own.begin() + at);
    }
    at += shard.end - shard.begin;
  }
}

uint64_t ShardedParameters::bytes_of(size_t group) const {
  return static_cast<uint64_t>(layout_.buckets()[group].elements()) * sizeof(float);
}

std::vector<float> ShardedParameters::part_of(const std::vector<float>& own, size_t group) const {
  const std::vector<ShardLayout::Bucket>& buckets = layout_.buckets();
  const auto rank = static_cast<size_t>(replicas_.owner());
  int64_t at = 0;
  for (size_t b = 0; b < group; ++b) at += buckets[b].sizes[rank];
  std::vector<float> values(static_cast<size_t>(buckets[group].elements()));
  std::copy_n(own.begin() + at, buckets[group].sizes[rank],
              values.begin() + buckets[group].begin_of(replicas_.owner()));
  return values;
}

void ShardedParameters::fetch(size_t group) {
  Group& g = groups_[group];
  if (g.under_way || g.lent) return;
  g.values = part_of(lends_average_ ? average_ : own_, group);
  g.arrival = replicas_.gather_parts(g.values, layout_.buckets()[group].sizes);
  g.under_way = true;
}

void ShardedParameters::lend(size_t group) {
  Group& g = groups_[group];
  if (g.lent) return;
  fetch(group);
  replicas_.wait(g.arrival);
  const float* from = g.values.data();
  for (const size_t i : layout_.buckets()[group].parameters) {
    Node& node = *parameters_[i].node();
    const uint64_t bytes = static_cast<uint64_t>(node.shape.numel()) * sizeof(float);
    StoragePtr storage = node.device->allocate(bytes);
    node.device->write(*storage, 0, from, bytes);
    node.storage = std::move(storage);
    from += node.shape.numel();
  }
  g = {.values = {}, .arrival = {}, .under_way = false, .lent = true, .stays = false};
}

void ShardedParameters::take_back(size_t group) {
  Group& g = groups_[group];
  if (!g.lent || g.stays) return;
  if (bytes_of(group) > room_) return drop(group);
  room_ -= bytes_of(group);
  g.stays = true;
}

void ShardedParameters::drop(size_t group) {
  if (!groups_[group].lent) return;
  groups_[group].stays = false;
  for (const size_t i : layout_.buckets()[group].parameters) parameters_[i].node()->storage.reset();
  groups_[group].lent = false;
}

void ShardedParameters::let_arrive() {
  for (Group& g : groups_) {
    if (!std::exchange(g.under_way, false)) continue;
    replicas_.wait(g.arrival);
    g = {};
  }
}

void ShardedParameters::set_own(std::vector<float> own) {
  own_ = std::move(own);
  if (decay_ > 0) update_average();
}

// As nn::ExponentialAverage.
void ShardedParameters::update_average() {
  const auto n = static_cast<double>(++averaged_);
  const auto share = static_cast<float>(1 - std::min(decay_, (1 + n) / (10 + n)));
  for (size_t i = 0; i < own_.size(); ++i) average_[i] += share * (own_[i] - average_[i]);
}

std::vector<float> ShardedParameters::whole(const std::vector<float>& own, size_t group) {
  std::vector<float> values = part_of(own, group);
  replicas_.wait(replicas_.gather_parts(values, layout_.buckets()[group].sizes));
  return values;
}

// By place among the parameters; what is not shared, as it is.
nn::StateDict ShardedParameters::whole_states(const std::vector<float>& own, bool mine) {
  nn::StateDict states;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<float> values = whole(own, g);
    const float* from = values.data();
    for (const size_t i : layout_.buckets()[g].parameters) {
      const auto count = static_cast<size_t>(parameters_[i].numel());
      if (mine) states.emplace(std::to_string(i), on_host({from, count}, parameters_[i].shape()));
      from += count;
    }
  }
  for (size_t i = 0; mine && i < parameters_.size(); ++i) states.emplace(std::to_string(i), parameters_[i]);
  return states;
}

WholeParameters ShardedParameters::gathered(bool mine) {
  WholeParameters all;
  const nn::StateDict values = whole_states(own_, mine);
  if (decay_ > 0) all.average = whole_states(average_, mine);
  if (!mine) return {};
  if (decay_ > 0) all.average.emplace("updates", Tensor::from_host(std::span<const int64_t>(&averaged_, 1), Shape{}));
  all.model = model_.state_dict();
  const nn::NamedTensors named = model_.named_parameters();
  for (size_t i = 0; i < named.size(); ++i) all.model[named[i].first] = values.at(std::to_string(i));
  return all;
}

nn::StateDict ShardedParameters::evaluated(const WholeParameters& whole) const {
  nn::StateDict states = whole.model;
  const nn::NamedTensors named = model_.named_parameters();
  for (size_t i = 0; decay_ > 0 && i < named.size(); ++i) states[named[i].first] = whole.average.at(std::to_string(i));
  return states;
}

std::string ShardedParameters::sha256(const WholeParameters& whole) {
  Sha256 hash;
  for (const auto& [name, parameter] : replicas_.leads() ? model_.named_parameters() : nn::NamedTensors())
    hash.update(whole.model.at(name).to_bytes());
  return replicas_.of_first(hex_of(hash.digest()));
}

void ShardedParameters::load(const nn::StateDict& model, const nn::StateDict& average) {
  std::vector<float> own = own_, averages = average_;
  const nn::NamedTensors named = model_.named_parameters();
  nn::StateDict rest = model_.state_dict();
  for (const auto& [name, tensor] : rest) {
    const auto found = model.find(name);
    if (found == model.end())
      throw ValueError(fmt::format("[train] the state has no tensor '{}'; likely saved from another model", name));
    if (found->second.shape() != tensor.shape())
      throw ShapeError(fmt::format("[train] {} has shape {} in the state and {} in the model", name,
                                   found->second.shape().str(), tensor.shape().str()));
  }
  if (model.size() != rest.size())
    throw ValueError(fmt::format("[train] the state has {} tensors, the model {}; likely saved from another model",
                                 model.size(), rest.size()));
  for (size_t i = 0; i < named.size(); ++i) {
    if (!is_lent(*named[i].second.node())) continue;
    take_own(model.at(named[i].first), i, own);
    rest.erase(named[i].first);
    if (decay_ > 0) take_own(average.at(std::to_string(i)), i, averages);
  }
  for (auto& [name, tensor] : rest) tensor.assign(model.at(name).to(tensor.device()).to(tensor.dtype()));
  eval_pending();
  if (decay_ > 0) averaged_ = nn::count_of_updates("ExponentialAverage", average.at("updates"));
  own_ = std::move(own);
  average_ = std::move(averages);
}

ParametersScope::ParametersScope(ShardedParameters* parameters, Use use)
    : parameters_(parameters), lender_(parameters) {
  if (parameters_ == nullptr) return;
  parameters_->let_arrive();
  if (use == Use::training) return;
  parameters_->lends_average_ = parameters_->decay_ > 0;
  // As of a mean rank, so that all keep the same buckets.
  uint64_t bytes = 0;
  for (size_t group = 0; group < parameters_->groups_.size(); ++group) bytes += parameters_->bytes_of(group);
  parameters_->room_ = 2 * bytes / static_cast<uint64_t>(parameters_->replicas_.owners());
}

ParametersScope::~ParametersScope() {
  if (parameters_ == nullptr) return;
  parameters_->lends_average_ = false;
  parameters_->room_ = 0;
  for (size_t group = 0; group < parameters_->groups_.size(); ++group) parameters_->drop(group);
}

}  // namespace heddle::train
