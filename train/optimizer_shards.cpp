// Optimizers of which each rank keeps the states of its shards.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/optimizer_prefixes.h"
#include "heddle/train/optimizers.h"
#include "heddle/train/prefix.h"

namespace heddle::train {
namespace {

std::string_view prefix_of(size_t optimizer) { return optimizer == 0 ? std::string_view() : second_prefix; }

// Place of a parameter among the optimizer's own; none where it is another's.
std::optional<size_t> place_in(const nn::Optimizer& optimizer, const Tensor& parameter) {
  const std::vector<Tensor>& own = optimizer.parameters();
  const auto found = std::ranges::find_if(own, [&](const Tensor& p) { return p.impl() == parameter.impl(); });
  return found == own.end() ? std::nullopt : std::optional(static_cast<size_t>(found - own.begin()));
}

bool is_part(const nn::Shard& shard, const Tensor& parameter) { return shard.end - shard.begin < parameter.numel(); }

// "12.m" as 12 and "m".
std::pair<size_t, std::string> split(const std::string& key) {
  const size_t dot = key.find('.');
  return {parse_number<size_t>(key.substr(0, dot)).value(), key.substr(dot + 1)};
}

// The shard's elements of a state; all of it where it has not the parameter's elements (a count, a matrix's rows).
Tensor part_of_state(const TensorBytes& state, const nn::Shard& shard, const Tensor& parameter) {
  if (!is_part(shard, parameter) || state.shape != parameter.shape())
    return Tensor::from_bytes(state.bytes.data(), static_cast<size_t>(state.shape.numel()), state.dtype, state.shape,
                              &parameter.device());
  const int64_t count = shard.end - shard.begin;
  const uint8_t* const from = state.bytes.data() + static_cast<size_t>(shard.begin) * size_of(state.dtype);
  return Tensor::from_bytes(from, static_cast<size_t>(count), state.dtype, Shape{count}, &parameter.device());
}

// Of one optimizer: names without its prefix; without prefixes those of all others are left out.
TensorBytesMap states_with(const TensorBytesMap& states, std::string_view prefix) {
  TensorBytesMap own;
  for (const auto& [name, state] : states) {
    const bool others = prefix.empty() && (name.starts_with(second_prefix) || name.starts_with(scale_prefix));
    if (!others && name.starts_with(prefix)) own.emplace(name.substr(prefix.size()), state);
  }
  return own;
}

}  // namespace

double Optimizers::lr() const {
  const auto owns = [](const auto& optimizer) { return !optimizer->shards().empty(); };
  const auto found = std::ranges::find_if(all_, owns);
  return found == all_.end() ? all_.front()->lr() : (*found)->lr();
}

bool Optimizers::is_elementwise() const {
  return std::ranges::all_of(all_, [](const auto& optimizer) { return optimizer->is_elementwise(); });
}

void Optimizers::keep_shards(const std::vector<nn::Shard>& shards) {
  std::vector<std::vector<size_t>> places;
  for (const auto& optimizer : all_) {
    std::vector<nn::Shard> own;
    places.emplace_back();
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::optional<size_t> place = place_in(*optimizer, parameters_.at(shards[i].parameter));
      if (!place) continue;
      places.back().push_back(i);
      own.push_back({.parameter = *place, .begin = shards[i].begin, .end = shards[i].end});
    }
    optimizer->keep_shards(own);
  }
  shard_places_ = std::move(places);
  keeps_shards_ = true;
}

Tensor Optimizers::together_scale(const Tensor& norm) const {
  return clamp(clip_norm_ / (norm + 1e-6), std::nullopt, 1.0);
}

std::vector<Tensor> Optimizers::update_shards(std::vector<Tensor> gradients, const Tensor& norm,
                                              const std::vector<Tensor>& elements) {
  const NoGradScope no_grad;
  const bool together = all_.size() > 1 && clip_norm_ > 0;  // one scale for several optimizers, which know of no limit
  const Tensor scale = together ? together_scale(norm) : Tensor();
  for (Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    if (clip_value_ > 0) gradient = clamp(gradient, -clip_value_, clip_value_);
    if (together) gradient = (gradient * scale).to(gradient.dtype());
  }
  std::vector<Tensor> updated(gradients.size());
  for (size_t k = 0; k < all_.size(); ++k) {
    std::vector<Tensor> own;
    for (const size_t i : shard_places_[k]) own.push_back(gradients[i]);
    for (const size_t i : elements.empty() ? std::vector<size_t>() : shard_places_[k]) own.push_back(elements[i]);
    const std::vector<Tensor> made = all_[k]->update_shards(own, norm);
    for (size_t i = 0; i < made.size(); ++i) updated[shard_places_[k][i]] = made[i];
  }
  norm_ = clip_norm_ > 0 ? (together ? norm : all_.front()->last_norm()) : Tensor();
  return updated;
}

std::vector<Optimizers::ShardState> Optimizers::shard_states() const {
  std::vector<ShardState> states;
  for (size_t k = 0; k < all_.size(); ++k) {
    for (const auto& [key, values] : all_[k]->state_dict()) {
      const auto [place, name] = split(key);
      const nn::Shard& shard = all_[k]->shards().at(place);
      const Tensor& parameter = all_[k]->parameters().at(shard.parameter);
      ShardState state{fmt::format("{}{}.{}", prefix_of(k), shard.parameter, name), values.shape(), 0, values.numel(),
                       values};
      if (is_part(shard, parameter) && values.rank() == 1) {
        state.whole = parameter.shape();
        state.begin = shard.begin;
        state.end = shard.end;
      }
      states.push_back(std::move(state));
    }
  }
  return states;
}

void Optimizers::load_shards(const TensorBytesMap& states) {
  std::vector<nn::StateDict> loaded;
  for (size_t k = 0; k < all_.size(); ++k) {
    const TensorBytesMap own = states_with(states, prefix_of(k));
    nn::StateDict& to = loaded.emplace_back();
    const std::vector<nn::Shard>& shards = all_[k]->shards();
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string begin = fmt::format("{}.", shards[i].parameter);
      for (auto state = own.lower_bound(begin); state != own.end() && state->first.starts_with(begin); ++state)
        to.emplace(fmt::format("{}.{}", i, state->first.substr(begin.size())),
                   part_of_state(state->second, shards[i], all_[k]->parameters().at(shards[i].parameter)));
    }
  }
  for (size_t k = 0; k < all_.size(); ++k) all_[k]->load_state_dict(loaded[k]);
  if (!scale_) return;
  nn::StateDict scale;
  for (const auto& [name, state] : states_with(states, scale_prefix))
    scale.emplace(name, Tensor::from_bytes(state.bytes.data(), static_cast<size_t>(state.shape.numel()), state.dtype,
                                           state.shape, &device_));
  scale_->load_state_dict(scale);
}

}  // namespace heddle::train
