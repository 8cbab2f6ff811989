#include "heddle/train/optimizers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/nn/clip.h"
#include "heddle/train/optimizer_prefixes.h"
#include "heddle/train/prefix.h"

namespace heddle::train {
namespace {

using OptimizerPtr = std::unique_ptr<nn::Optimizer>;
using Parameters = std::vector<Tensor>;

template <class T, class Options>
OptimizerPtr made(const Parameters& parameters, const Options& options) {
  return std::make_unique<T>(parameters, options);
}

nn::StateType states_of(const Config& c) {
  return c.optimizer.states == "8bit" ? nn::StateType::bits8 : nn::StateType::f32;
}

nn::AdamOptions adam(const Config& c, nn::StateType states) {
  const auto& o = c.optimizer;
  return {
      .lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay, .states = states};
}

using Maker = OptimizerPtr (*)(const Config&, const Parameters&);
const std::map<std::string, Maker>& optimizers() {
  static const std::map<std::string, Maker> table = {
      {"sgd",
       [](const Config& c, const Parameters& p) {
         return made<nn::SGD>(p, nn::SgdOptions{.lr = c.optimizer.lr,
                                                .momentum = c.optimizer.momentum,
                                                .weight_decay = c.optimizer.weight_decay,
                                                .nesterov = c.optimizer.nesterov,
                                                .states = states_of(c)});
       }},
      {"rmsprop",
       [](const Config& c, const Parameters& p) {
         const auto& o = c.optimizer;
         return made<nn::RMSprop>(
             p,
             nn::RmsPropOptions{
                 .lr = o.lr, .alpha = o.alpha, .eps = o.eps, .weight_decay = o.weight_decay, .momentum = o.momentum});
       }},
      {"adagrad",
       [](const Config& c, const Parameters& p) {
         return made<nn::Adagrad>(
             p, nn::AdagradOptions{
                    .lr = c.optimizer.lr, .eps = c.optimizer.eps, .weight_decay = c.optimizer.weight_decay});
       }},
      {"adam", [](const Config& c, const Parameters& p) { return made<nn::Adam>(p, adam(c, states_of(c))); }},
      {"adamw", [](const Config& c, const Parameters& p) { return made<nn::AdamW>(p, adam(c, states_of(c))); }},
      {"lion",
       [](const Config& c, const Parameters& p) {
         const auto& o = c.optimizer;
         return made<nn::Lion>(p, nn::LionOptions{.lr = o.lr,
                                                  .beta1 = o.beta1,
                                                  .beta2 = o.beta2,
                                                  .weight_decay = o.weight_decay,
                                                  .states = states_of(c)});
       }},
      {"lamb",
       [](const Config& c, const Parameters& p) {
         const auto& o = c.optimizer;
         return made<nn::LAMB>(
             p, nn::LambOptions{
                    .lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay});
       }},
      {"adafactor",
       [](const Config& c, const Parameters& p) {
         return made<nn::Adafactor>(
             p, nn::AdafactorOptions{.lr = c.optimizer.lr, .weight_decay = c.optimizer.weight_decay});
       }},
      {"muon",
       [](const Config& c, const Parameters& p) {
         const auto& o = c.optimizer;
         return made<nn::Muon>(p, nn::MuonOptions{.lr = o.lr,
                                                  .momentum = o.momentum,
                                                  .weight_decay = o.weight_decay,
                                                  .nesterov = o.nesterov,
                                                  .match_adam = true});
       }},
  };
  return table;
}

// Biases, and scales and shifts of norms.
Parameters vectors_of(const Parameters& parameters) {
  Parameters vectors;
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(vectors),
               [](const Tensor& p) { return p.rank() < 2; });
  return vectors;
}

// Those that Muon takes: matrices, but neither tables of embeddings nor the last layer, which its authors leave to
// AdamW.
bool is_hidden_matrix(size_t index, size_t count, const Tensor& parameter) {
  return parameter.rank() == 2 && index != 0 && index + 2 < count;
}

using ScheduleMaker = nn::Schedule (*)(const Config&, int64_t steps);
const std::map<std::string, ScheduleMaker>& schedules() {
  namespace s = nn::schedule;
  static const std::map<std::string, ScheduleMaker> table = {
      {"constant", [](const Config& c, int64_t) { return s::constant(c.optimizer.lr); }},
      {"step", [](const Config& c, int64_t) { return s::step(c.optimizer.lr, c.schedule.every, c.schedule.gamma); }},
      {"multi-step",
       [](const Config& c, int64_t) { return s::multi_step(c.optimizer.lr, c.schedule.milestones, c.schedule.gamma); }},
      {"exponential", [](const Config& c, int64_t) { return s::exponential(c.optimizer.lr, c.schedule.gamma); }},
      {"linear", [](const Config& c,
                    int64_t steps) { return s::linear(c.optimizer.lr, steps, 1, c.schedule.least / c.optimizer.lr); }},
      {"polynomial",
       [](const Config& c, int64_t steps) { return s::polynomial(c.optimizer.lr, steps, c.schedule.power); }},
      {"cosine", [](const Config& c, int64_t steps) { return s::cosine(c.optimizer.lr, steps, c.schedule.least); }},
      {"cosine-restarts",
       [](const Config& c, int64_t) {
         return s::cosine_restarts(c.optimizer.lr, c.schedule.every, 1, c.schedule.least);
       }},
      {"one-cycle", [](const Config& c, int64_t steps) { return s::one_cycle(c.optimizer.lr, steps); }},
      {"cyclical",
       [](const Config& c, int64_t) { return s::cyclical(c.schedule.least, c.optimizer.lr, c.schedule.every); }},
  };
  return table;
}

template <class Table>
const auto& entry(const Table& table, const char* what, const std::string& name) {
  const auto found = table.find(name);
  if (found != table.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& row : table) names.push_back(row.first);
  throw ValueError(fmt::format("[train] unknown {} '{}'; known: {}", what, name, fmt::join(names, ", ")));
}

}  // namespace

nn::Schedule make_schedule(const Config& c, int64_t steps, const std::shared_ptr<nn::Plateau>& plateau) {
  const int64_t rest = std::max<int64_t>(1, steps - c.schedule.warmup);
  nn::Schedule schedule;
  if (c.schedule.name == "plateau" && plateau)
    schedule = [plateau](int64_t) { return plateau->lr(); };
  else
    schedule = entry(schedules(), "schedule", c.schedule.name)(c, rest);
  return c.schedule.warmup > 0 ? nn::schedule::warmup(c.schedule.warmup, std::move(schedule)) : schedule;
}

Optimizers::Optimizers(Task& task, const Config& c, const nn::Schedule& schedule, DeviceContext& device)
    : parameters_(task.model().parameters()),
      device_(device),
      clip_norm_(c.training.clip_norm),
      clip_value_(c.training.clip_value) {
  const Maker maker = entry(optimizers(), "optimizer", c.optimizer.name);
  Parameters first, rest;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool other = c.optimizer.name == "muon" && !is_hidden_matrix(i, parameters_.size(), parameters_[i]);
    (other ? rest : first).push_back(parameters_[i]);
  }
  if (!first.empty()) all_.push_back(maker(c, first));
  if (!rest.empty()) all_.push_back(made<nn::AdamW>(rest, adam(c, nn::StateType::f32)));
  const Parameters undecayed = c.optimizer.decay_all ? Parameters{} : vectors_of(parameters_);
  for (const OptimizerPtr& optimizer : all_) {
    Parameters own;
    for (const Tensor& parameter : undecayed) {
      const bool here = std::any_of(optimizer->parameters().begin(), optimizer->parameters().end(),
                                    [&](const Tensor& p) { return p.impl() == parameter.impl(); });
      if (here) own.push_back(parameter);
    }
    optimizer->set_group(own, {.weight_decay = 0});
    optimizer->set_schedule(schedule);
  }
  if (all_.size() == 1) all_.front()->set_clip_norm(clip_norm_ > 0 ? std::optional(clip_norm_) : std::nullopt);
  if (c.training.precision != "f16") return;
  if (all_.size() > 1 || clip_value_ > 0)
    throw ValueError(
        fmt::format("[train] f16 does not go with {}; bf16 does", clip_value_ > 0 ? "clip_value" : c.optimizer.name));
  scale_.emplace(
      nn::LossScaleOptions{.start = c.training.loss_scale, .interval = c.training.loss_scale_every, .device = device});
  all_.front()->set_loss_scale(scale_);
}

void Optimizers::update(const Tensor& norm) {
  if (clip_value_ > 0) nn::clip_grad_value(parameters_, clip_value_);
  const bool together = clip_norm_ > 0 && all_.size() > 1;
  norm_ = together ? (norm.defined() ? norm : nn::clip_grad_norm(parameters_, clip_norm_)) : Tensor();
  if (together && norm.defined()) scale_gradients(norm);
  for (const OptimizerPtr& optimizer : all_) norm.defined() ? optimizer->update_by_norm(norm) : optimizer->update();
  if (clip_norm_ > 0 && all_.size() == 1) norm_ = all_.front()->last_norm();
}

// One scale for several optimizers, which know of no limit.
void Optimizers::scale_gradients(const Tensor& norm) {
  const NoGradScope no_grad;
  const Tensor scale = together_scale(norm);
  for (Tensor& parameter : parameters_) {
    if (const Tensor gradient = parameter.grad(); gradient.defined())
      parameter.set_grad((gradient * scale).to(gradient.dtype()));
  }
}

void Optimizers::zero_grad() {
  for (const OptimizerPtr& optimizer : all_) optimizer->zero_grad();
}

nn::StateDict Optimizers::state_dict() const {
  nn::StateDict state = keeps_shards_ ? nn::StateDict() : all_.front()->state_dict();
  if (all_.size() > 1 && !keeps_shards_) add_with_prefix(state, second_prefix, all_.back()->state_dict());
  if (scale_) add_with_prefix(state, scale_prefix, scale_->state_dict());
  return state;
}

void Optimizers::load_state_dict(const nn::StateDict& given) {
  nn::StateDict first = given;
  std::erase_if(first, [](const auto& entry) {
    return entry.first.starts_with(second_prefix) || entry.first.starts_with(scale_prefix);
  });
  all_.front()->load_state_dict(first);
  if (all_.size() > 1) all_.back()->load_state_dict(with_prefix(given, second_prefix));
  if (scale_) scale_->load_state_dict(with_prefix(given, scale_prefix));
}

}  // namespace heddle::train
