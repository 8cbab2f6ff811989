#include "nn/optim.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace heddle::nn {
namespace {

DType state_dtype(DType parameter) { return parameter == DType::f64 ? DType::f64 : DType::f32; }

void check_not_negative(double value, const char* name, const char* what) {
  if (!(value >= 0) || std::isinf(value))
    throw ValueError(fmt::format("[{}] {} is {}; it must be finite and not negative", name, what, value));
}

void check_beta(double value, const char* name, const char* what) {
  if (!(value >= 0 && value < 1))
    throw ValueError(fmt::format("[{}] {} is {}; it must be in [0, 1)", name, what, value));
}

}  // namespace

Optimizer::Optimizer(std::vector<Tensor> parameters, double lr, const char* name)
    : parameters_(std::move(parameters)), lr_(0), name_(name) {
  set_lr(lr);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    if (!parameter.defined() || !parameter.is_leaf() || !is_float(parameter.dtype())) {
      throw ValueError(fmt::format("[{}] parameter {} is not a floating leaf tensor", name, i));
    }
    for (size_t k = 0; k < i; ++k) {
      if (parameters_[k].impl() == parameter.impl())
        throw ValueError(fmt::format("[{}] parameters {} and {} are the same tensor", name, k, i));
    }
    slots_.push_back({parameter, 0, nullptr, {}});
  }
}

void Optimizer::set_lr(double lr) {
  check_not_negative(lr, name_.c_str(), "the learning rate");
  lr_ = lr;
}

// Side by side in memory, small parameters share bindings, and one launch updates all of them.
void Optimizer::place_parameters() {
  std::map<DeviceContext*, std::vector<Node*>> found;
  for (Slot& slot : slots_) {
    Node& node = *slot.parameter.node();
    if (slot.placed == node.device || !node.has_value()) continue;
    slot.placed = node.device;
    const bool alone = node.storage && node.storage.use_count() == 1 && node.view.is_dense();
    if (alone && node.device->caps().target != Target::none) found[node.device].push_back(&node);
  }
  for (auto& [device, nodes] : found) {
    if (nodes.size() < 2) continue;
    std::vector<uint64_t> bytes;
    for (const Node* node : nodes) bytes.push_back(node->storage->bytes());
    const std::vector<StoragePtr> storages = device->allocate_adjacent(bytes);
    std::vector<std::pair<StoragePtr, StoragePtr>> moves;
    for (size_t i = 0; i < nodes.size(); ++i) moves.emplace_back(nodes[i]->storage, storages[i]);
    device->copy(moves);
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->storage = storages[i];
  }
}

// Uploaded zeros rather than recorded constants: the first step then has the structure of all later ones, and one plan serves them.
void Optimizer::make_states(std::vector<Slot*> slots) const {
  for (const std::string& name : state_names()) {
    std::map<DeviceContext*, std::vector<Slot*>> missing;
    for (Slot* slot : slots) {
      if (!slot->tensors.contains(name)) missing[&slot->parameter.device()].push_back(slot);
    }
    for (auto& [device, here] : missing) {
      std::vector<uint64_t> bytes;
      for (const Slot* slot : here) bytes.push_back(static_cast<uint64_t>(slot->parameter.numel()) * size_of(state_dtype(slot->parameter.dtype())));
      const std::vector<StoragePtr> storages = device->allocate_adjacent(bytes);
      for (size_t i = 0; i < here.size(); ++i) {
        const std::vector<uint8_t> zero(bytes[i]);
        device->write(*storages[i], 0, zero.data(), zero.size());
        const Tensor& parameter = here[i]->parameter;
        here[i]->tensors[name] = Tensor(make_leaf(storages[i], View::dense(parameter.shape()), state_dtype(parameter.dtype())));
      }
    }
  }
}

void Optimizer::update() {
  const NoGradScope no_grad;
  std::vector<Slot*> slots;
  for (Slot& slot : slots_) {
    if (slot.parameter.grad().defined()) slots.push_back(&slot);
  }
  place_parameters();
  make_states(slots);
  begin_update();
  for (Slot* slot : slots) {
    ++slot->steps;
    update_slot(*slot, slot->parameter.grad());
  }
}

void Optimizer::step() {
  update();
  eval_pending();
}

void Optimizer::zero_grad() {
  for (Tensor& parameter : parameters_) parameter.zero_grad();
}

void Optimizer::assign_parameter(Slot& slot, const Tensor& value) {
  slot.parameter.assign(value.to(slot.parameter.dtype()));
}

StateDict Optimizer::state_dict() const {
  StateDict all;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].steps == 0) continue;
    for (const auto& [name, tensor] : slots_[i].tensors) all.emplace(fmt::format("{}.{}", i, name), tensor);
    const int64_t steps = slots_[i].steps;
    all.emplace(fmt::format("{}.step", i),
                Tensor::from_host(std::span(&steps, 1), Shape{}, &slots_[i].parameter.device()));
  }
  return all;
}

void Optimizer::load_state_dict(const StateDict& given) {
  std::vector<std::string> missing, unexpected;
  StateDict left = given;
  std::vector<Slot> loaded = slots_;
  for (size_t i = 0; i < loaded.size(); ++i) {
    Slot& slot = loaded[i];
    slot.steps = 0;
    slot.tensors.clear();
    const auto steps = left.extract(fmt::format("{}.step", i));
    if (steps.empty()) continue;  // never stepped
    slot.steps = static_cast<int64_t>(steps.mapped().item());
    for (const std::string& name : state_names()) {
      const auto found = left.extract(fmt::format("{}.{}", i, name));
      if (found.empty()) {
        missing.push_back(fmt::format("{}.{}", i, name));
        continue;
      }
      if (found.mapped().shape() != slot.parameter.shape()) {
        throw ShapeError(
            fmt::format("[{}] state {} has shape {} but the parameter is {}; likely saved from another model", name_,
                        found.key(), found.mapped().shape().str(), slot.parameter.shape().str()));
      }
      slot.tensors[name] = found.mapped().detach().to(slot.parameter.device()).to(state_dtype(slot.parameter.dtype()));
    }
  }
  for (const auto& [name, tensor] : left) unexpected.push_back(name);
  if (!missing.empty() || !unexpected.empty()) {
    throw ValueError(fmt::format(
        "[{}] the state does not fit: missing [{}], unexpected [{}]; likely saved by another optimizer or model", name_,
        fmt::join(missing, ", "), fmt::join(unexpected, ", ")));
  }
  // Own copies: this optimizer's updates must not reach the tensors that were given.
  std::vector<Slot*> with_state;
  std::vector<std::map<std::string, Tensor>> values;
  for (Slot& slot : loaded) {
    if (slot.tensors.empty()) continue;
    values.push_back(std::move(slot.tensors));
    slot.tensors.clear();
    with_state.push_back(&slot);
  }
  make_states(with_state);
  for (size_t i = 0; i < with_state.size(); ++i) {
    for (auto& [name, tensor] : with_state[i]->tensors) tensor.assign(values[i].at(name));
  }
  slots_ = std::move(loaded);
}

// ---- SGD

SGD::SGD(std::vector<Tensor> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), options.lr, "SGD"), options_(options) {
  check_not_negative(options.momentum, "SGD", "momentum");
  check_not_negative(options.weight_decay, "SGD", "weight_decay");
  if (!std::isfinite(options.dampening))
    throw ValueError(fmt::format("[SGD] dampening is {}; it must be finite", options.dampening));
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    throw ValueError(
        fmt::format("[SGD] Nesterov needs a momentum above 0 and no dampening; got momentum {}, dampening {}",
                    options.momentum, options.dampening));
  }
}

std::vector<std::string> SGD::state_names() const {
  return options_.momentum != 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
}

void SGD::begin_update() { lr_scalars_.clear(); }

void SGD::update_slot(Slot& slot, const Tensor& gradient) {
  const Tensor& p = slot.parameter;
  Tensor& rate = lr_scalars_[&p.device()];
  if (!rate.defined()) rate = Tensor::host_scalar(static_cast<float>(lr()), &p.device());
  Tensor d = options_.weight_decay != 0 ? gradient + options_.weight_decay * p : gradient;
  if (options_.momentum != 0) {
    Tensor& buffer = state(slot, "momentum");
    // The first step takes the gradient whole, as PyTorch does; without dampening the general form says the same.
    const bool whole = slot.steps == 1 || options_.dampening == 0;
    const Tensor moved = options_.momentum * buffer + (whole ? d : (1 - options_.dampening) * d);
    buffer.assign(moved);
    d = options_.nesterov ? d + options_.momentum * moved : moved;
  }
  assign_parameter(slot, p - rate * d);
}

// ---- Adam, AdamW

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options)
    : Adam(std::move(parameters), options, false, "Adam") {}
AdamW::AdamW(std::vector<Tensor> parameters, const AdamOptions& options)
    : Adam(std::move(parameters), options, true, "AdamW") {}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled, const char* name)
    : Optimizer(std::move(parameters), options.lr, name), options_(options), decoupled_(decoupled) {
  check_beta(options.beta1, name, "beta1");
  check_beta(options.beta2, name, "beta2");
  check_not_negative(options.eps, name, "eps");
  check_not_negative(options.weight_decay, name, "weight_decay");
}

std::vector<std::string> Adam::state_names() const { return {"m", "v"}; }

void Adam::begin_update() { scalars_.clear(); }

const Adam::Scalars& Adam::scalars(const Slot& slot) {
  DeviceContext* device = &slot.parameter.device();
  const auto [at, fresh] = scalars_.try_emplace({device, slot.steps});
  if (fresh) {
    const double t = static_cast<double>(slot.steps);
    const auto scalar = [device](double value) { return Tensor::host_scalar(static_cast<float>(value), device); };
    at->second.step_size = scalar(lr() / (1 - std::pow(options_.beta1, t)));
    at->second.inverse_root = scalar(1 / std::sqrt(1 - std::pow(options_.beta2, t)));
    if (decoupled_ && options_.weight_decay != 0) at->second.keep = scalar(1 - lr() * options_.weight_decay);
  }
  return at->second;
}

void Adam::update_slot(Slot& slot, const Tensor& gradient) {
  const Scalars& s = scalars(slot);
  const Tensor& p = slot.parameter;
  const bool decayed = options_.weight_decay != 0;
  Tensor g = gradient.to(state_dtype(p.dtype()));
  if (decayed && !decoupled_) g = g + options_.weight_decay * p;
  Tensor& m = state(slot, "m");
  Tensor& v = state(slot, "v");
  const Tensor m_next = m + (1 - options_.beta1) * (g - m);
  const Tensor v_next = options_.beta2 * v + (1 - options_.beta2) * (g * g);
  m.assign(m_next);
  v.assign(v_next);
  const Tensor start = decayed && decoupled_ ? s.keep * p : p;
  assign_parameter(slot, start - s.step_size * (m_next / (sqrt(v_next) * s.inverse_root + options_.eps)));
}

}  // namespace heddle::nn
