#include "heddle/nn/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>

#include "heddle/core/base/view.h"
#include "heddle/core/contract/device_info.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/trace.h"
#include "heddle/nn/clip.h"
#include "heddle/nn/packed_state.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

DType state_dtype(DType parameter) { return parameter == DType::f64 ? DType::f64 : DType::f32; }

std::string codes_of(const char* moment) { return fmt::format("{}.codes", moment); }
std::string scales_of(const char* moment) { return fmt::format("{}.scales", moment); }

}  // namespace

// Host scalars by device, group, step count and key, and scalars in shapes.
struct Optimizer::Shared {
  std::map<std::tuple<const DeviceContext*, double, double, int64_t, std::string_view>, Tensor> varying;
  std::map<std::tuple<const void*, double, DType, std::string>, Tensor> spread;
};

Optimizer::Optimizer(std::vector<Tensor> parameters, double lr, const char* name, StateType states)
    : parameters_(std::move(parameters)), lr_(0), name_(name), states_(states), shared_(std::make_unique<Shared>()) {
  set_lr(lr);
  if (parameters_.empty()) {
    throw ValueError(
        fmt::format("[{}] there are no parameters to train; a module registers its own by add_parameter(\"weight\", "
                    "...) and its parts by add(\"fc1\", nn::Linear(...))",
                    name));
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    if (!parameter.defined() || !parameter.is_leaf() || !is_float(parameter.dtype())) {
      throw ValueError(fmt::format("[{}] parameter {} is not a floating leaf tensor", name, i));
    }
    if (states == StateType::bits8 && parameter.dtype() == DType::f64)
      throw DTypeError(fmt::format("[{}] parameter {} is f64; states in 8 bits are for f32, f16 and bf16", name, i));
    for (size_t k = 0; k < i; ++k) {
      if (parameters_[k].impl() == parameter.impl())
        throw ValueError(fmt::format("[{}] parameters {} and {} are the same tensor", name, k, i));
    }
    slots_.push_back({.parameter = parameter, .group = {}, .tensors = {}});
  }
}

Optimizer::~Optimizer() { trace::host_state_changed(); }  // compiled functions that stepped it look again

Tensor& Optimizer::state(Slot& slot, const std::string& name) { return slot.tensors.at(name); }
double Optimizer::decay(const Slot& slot, double otherwise) { return slot.group.weight_decay.value_or(otherwise); }

double Optimizer::checked_lr(double lr) const {
  if (!(lr >= 0) || std::isinf(lr))
    throw ValueError(fmt::format("[{}] the learning rate is {}; it must be finite and not negative", name_, lr));
  return lr;
}

void Optimizer::set_lr(double lr) {
  checked_lr(lr);
  trace::refuse(fmt::format("it sets the learning rate of {} inside; use set_schedule()", name_));
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

std::vector<Optimizer::State> Optimizer::like(const Shape& shape, std::initializer_list<const char*> names) {
  std::vector<State> states;
  for (const char* name : names) states.push_back({name, shape, 0});
  return states;
}

bool Optimizer::is_packed(const Shape& shape) const {
  return states_ == StateType::bits8 && shape.numel() >= least_packed_state;
}

std::vector<Optimizer::State> Optimizer::of_moments(const Shape& shape, std::initializer_list<Moment> moments) const {
  std::vector<State> states;
  const int64_t blocks = (shape.numel() + state_block - 1) / state_block;
  for (const Moment& moment : moments) {
    if (!is_packed(shape)) {
      states.push_back({moment.name, shape, 0});
      continue;
    }
    states.push_back({codes_of(moment.name), {blocks, state_block}, 0, true});
    states.push_back({scales_of(moment.name), {blocks, 1}, 0});
  }
  return states;
}

Tensor Optimizer::read(const Slot& slot, const Moment& moment) {
  const auto plain = slot.tensors.find(moment.name);
  if (plain != slot.tensors.end()) return plain->second;
  return unpacked_state({slot.tensors.at(codes_of(moment.name)), slot.tensors.at(scales_of(moment.name))},
                        moment.is_positive ? StateCode::positive : StateCode::with_sign);
}

Tensor Optimizer::write(Slot& slot, const Moment& moment, const Tensor& value) {
  const auto plain = slot.tensors.find(moment.name);
  if (plain != slot.tensors.end()) return write(plain->second, value);
  const PackedState packed = packed_state(value, moment.is_positive ? StateCode::positive : StateCode::with_sign);
  write(slot.tensors.at(codes_of(moment.name)), packed.codes);
  write(slot.tensors.at(scales_of(moment.name)), packed.scales);
  return value;
}

void Optimizer::set_group(const std::vector<Tensor>& of, const GroupOptions& options) {
  const auto usable = [](double value) { return value >= 0 && !std::isinf(value); };
  if (!usable(options.lr_scale))
    throw ValueError(fmt::format("[{}] lr_scale is {}; it must be finite and not negative", name_, options.lr_scale));
  if (options.weight_decay && !usable(*options.weight_decay)) {
    throw ValueError(fmt::format("[{}] the group's weight_decay is {}; it must be finite and not negative", name_,
                                 *options.weight_decay));
  }
  const auto is_same = [](const Tensor& a, const Tensor& b) { return a.defined() && a.impl() == b.impl(); };
  for (size_t i = 0; i < of.size(); ++i) {
    if (std::ranges::none_of(parameters_, [&](const Tensor& parameter) { return is_same(of[i], parameter); }))
      throw ValueError(fmt::format("[{}] tensor {} of the group is no parameter of this optimizer", name_, i));
  }
  for (Slot& slot : slots_) {
    if (std::ranges::any_of(of, [&](const Tensor& tensor) { return is_same(tensor, slot.parameter); }))
      slot.group = options;
  }
  trace::host_state_changed();
}

// State of a parameter that has moved to another device follows it. Uploaded numbers rather than recorded constants:
// the first step then has the structure of all later ones, and one plan serves them.
void Optimizer::make_states(std::vector<Slot*> slots) const {
  struct Missing {
    Slot* slot;
    State state;
    DType dtype;
    uint64_t bytes() const { return static_cast<uint64_t>(state.shape.numel()) * size_of(dtype); }
  };
  std::map<std::pair<DeviceContext*, std::string>, std::vector<Missing>> missing;
  for (Slot* slot : slots) {
    DeviceContext* device = &slot->parameter.device();
    for (State& state : states_of(shape_of(*slot))) {
      const auto known = slot->tensors.find(state.name);
      if (known != slot->tensors.end() && &known->second.device() == device) continue;
      const DType dtype = state.is_codes ? DType::u8 : state_dtype(slot->parameter.dtype());
      missing[{device, state.name}].push_back({slot, std::move(state), dtype});
    }
  }
  for (auto& [where, here] : missing) {
    const auto& [device, name] = where;
    std::vector<uint64_t> bytes;
    for (const Missing& m : here) bytes.push_back(m.bytes());
    const std::vector<StoragePtr> storages = device->allocate_adjacent(bytes);
    for (size_t i = 0; i < here.size(); ++i) {
      // Nothing is entered before it is written: a device that fails in between leaves a state that can be made again.
      const auto known = here[i].slot->tensors.find(name);
      const std::vector<uint8_t> value =
          known != here[i].slot->tensors.end() ? known->second.to_bytes() : filled(here[i].state, here[i].dtype);
      device->write(*storages[i], 0, value.data(), value.size());
      here[i].slot->tensors[name] = Tensor(make_leaf(storages[i], View::dense(here[i].state.shape), here[i].dtype));
    }
  }
}

std::vector<uint8_t> Optimizer::filled(const State& state, DType dtype) {
  const auto count = static_cast<size_t>(state.shape.numel());
  std::vector<uint8_t> bytes(count * size_of(dtype));
  if (state.start == 0) return bytes;
  for (size_t i = 0; i < count; ++i) {
    if (dtype == DType::f64)
      std::memcpy(&bytes[8 * i], &state.start, 8);
    else if (const float narrow = static_cast<float>(state.start); true)
      std::memcpy(&bytes[4 * i], &narrow, 4);
  }
  return bytes;
}

void Optimizer::update(Caller caller) {
  const CallerScope scope(caller);
  record_updates({});
}

void Optimizer::update_by_norm(const Tensor& norm, Caller caller) {
  const CallerScope scope(caller);
  record_updates(norm);
}

// `norm` may be undefined.
void Optimizer::record_updates(const Tensor& norm) {
  const NoGradScope no_grad;
  const AutocastScope autocast = AutocastScope::off();
  if (keeps_shards_) throw ValueError(fmt::format("[{}] it keeps shards; update_shards() updates them", name_));
  std::vector<Slot*> slots;
  for (Slot& slot : slots_) {
    if (slot.parameter.grad().defined()) slots.push_back(&slot);
  }
  // Later a single update may well have none: several optimizers take turns.
  if (slots.empty() && std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.steps > 0; }))
    throw_without_gradients();
  place_parameters();
  make_states(slots);
  measure_gradients(slots, norm);
  count_step(slots);
  // The largest come last: what is unpacked of them needs memory when the gradients of the others are gone.
  if (states_ == StateType::bits8)
    std::ranges::stable_sort(slots, {}, [](const Slot* slot) { return slot->parameter.numel(); });
  for (Slot* slot : slots) record_update(*slot, slot->parameter, slot->parameter.grad());
  end_update();
}

void Optimizer::record_update(Slot& slot, const Tensor& elements, const Tensor& gradient) {
  const bool packed = is_packed(elements.shape());
  const Tensor wide = gradient.to(state_dtype(slot.parameter.dtype())), given = packed ? in_blocks(wide) : wide;
  slot.shaped = packed ? in_blocks(elements) : elements;
  update_slot(slot, scale_.defined() ? given * spread(scale_, given) : given);
  slot.shaped = Tensor();  // a held tensor would be a result of the step
}

void Optimizer::end_update() {
  if (loss_scale_ && finite_.defined()) loss_scale_->update(finite_);
  shared_->spread.clear();  // held tensors would be results of the step
  shared_->varying.clear();
  scale_ = finite_ = Tensor();
}

void Optimizer::throw_without_gradients() const {
  const bool frozen =
      std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.parameter.requires_grad(); });
  throw GradError(fmt::format("[{}] none of the {} parameters has a gradient{}", name_, slots_.size(),
                              frozen
                                  ? ": all are frozen; requires_grad(true) or unfreeze() those that are to be trained"
                                  : "; call backward(loss) before the update and zero_grad() after it. If that is so, "
                                    "the loss does not depend on them: it was computed in a NoGradScope, from "
                                    "detached values, or by another model than these parameters belong to"));
}

// In a replay of compile() only this is done again, and the host scalars are asked for anew.
void Optimizer::count_step(const std::vector<Slot*>& slots) {
  const auto count = [this, slots] {
    int64_t update = 0;
    for (Slot* slot : slots) update = std::max(update, ++slot->steps);
    if (schedule_ && update > 0) lr_ = checked_lr(schedule_(update));
  };
  trace::effect(count);
  count();
}

void Optimizer::set_schedule(Callable<double(int64_t)> schedule) {
  schedule_ = std::move(schedule);
  trace::host_state_changed();
}

void Optimizer::set_clip_norm(std::optional<double> max_norm) {
  if (max_norm && !(*max_norm > 0))
    throw ValueError(fmt::format("[{}] the norm to clip at is {}; it must be positive", name_, *max_norm));
  if (clip_norm_.has_value() != max_norm.has_value()) trace::host_state_changed();
  clip_norm_ = max_norm;
}

void Optimizer::set_loss_scale(std::optional<LossScale> scale) {
  loss_scale_ = std::move(scale);
  trace::host_state_changed();
}

void Optimizer::measure_gradients(const std::vector<Slot*>& slots, const Tensor& norm) {
  norm_ = Tensor();
  if ((!clip_norm_ && !loss_scale_) || slots.empty()) return;
  if (norm.defined()) return take_norm(norm);
  std::vector<Tensor> gradients;
  for (const Slot* slot : slots) gradients.push_back(slot->parameter.grad());
  take_norm(global_norm(gradients));
}

// Of all gradients, as they are.
void Optimizer::take_norm(const Tensor& norm) {
  norm_ = norm;
  if (loss_scale_) norm_ = norm_ * (scale_ = loss_scale_->inverse());
  finite_ = norm_ < std::numeric_limits<double>::infinity();
  if (!clip_norm_) return;
  const Tensor limit = Tensor::host_scalar([this] { return static_cast<float>(*clip_norm_); }, &norm_.device());
  const Tensor clip = clamp(limit / (norm_ + 1e-6), std::nullopt, 1.0);
  scale_ = loss_scale_ ? scale_ * clip : clip;
}

Tensor Optimizer::write(Tensor& target, const Tensor& value) {
  Tensor next = value.to(target.dtype());
  const bool blocks = next.shape() != target.shape();
  if (scale_.defined()) next = where(spread(finite_, next), next, blocks ? in_blocks(target) : target);
  target.assign(blocks ? out_of_blocks(next, target.shape()) : next);
  return next;
}

void Optimizer::write_parameter(Slot& slot, const Tensor& value) {
  if (!slot.shard) {
    write(slot.parameter, value);
    return;
  }
  const Tensor rounded = value.to(slot.parameter.dtype());
  const Tensor next = scale_.defined() ? where(spread(finite_, rounded), rounded, slot.shaped) : rounded;
  const Shape shape = shape_of(slot);
  slot.updated = next.shape() == shape ? next : out_of_blocks(next, shape);
}

// Slots live as long as the optimizer, or until load_state_dict() or set_group() makes compiled functions look again.
const Tensor& Optimizer::varying(const Slot& slot, const char* key, Callable<double(const Slot&)> value,
                                 const Tensor& like) {
  Tensor& scalar =
      shared_->varying[{&like.device(), slot.group.lr_scale, slot.group.weight_decay.value_or(-1), slot.steps, key}];
  if (!scalar.defined())
    scalar = Tensor::host_scalar([value = std::move(value), &slot] { return static_cast<float>(value(slot)); },
                                 &like.device());
  return spread(scalar, like);
}

const Tensor& Optimizer::rate(const Slot& slot) {
  return varying(
      slot, "rate", [this](const Slot& s) { return lr_of(s); }, slot.shaped);
}

const Tensor& Optimizer::keep(const Slot& slot, double weight_decay) {
  return varying(
      slot, "keep", [this, weight_decay](const Slot& s) { return 1 - lr_of(s) * decay(s, weight_decay); }, slot.shaped);
}

const Tensor& Optimizer::spread(const Tensor& scalar, const Tensor& like) {
  Tensor& wide = shared_->spread[{scalar.node().get(), 0.0, scalar.dtype(), like.shape().str()}];
  if (!wide.defined()) wide = expand(scalar, like.shape());
  return wide;
}

const Tensor& Optimizer::number(double value, const Tensor& like) {
  Tensor& wide = shared_->spread[{&like.device(), value, like.dtype(), like.shape().str()}];
  if (!wide.defined()) wide = full_like(like, value);
  return wide;
}

void Optimizer::step(Caller caller) {
  const CallerScope scope(caller);
  update();
  eval_pending();
}

void Optimizer::zero_grad() {
  for (Tensor& parameter : parameters_) parameter.zero_grad();
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

Tensor Optimizer::loaded_state(const Slot& slot, const State& state, const std::string& key,
                               const Tensor& given) const {
  if (given.shape() != state.shape) {
    throw ShapeError(
        fmt::format("[{}] state {} has shape {}, expected {} for a parameter {}; likely saved from "
                    "another model",
                    name_, key, given.shape().str(), state.shape.str(), slot.parameter.shape().str()));
  }
  if (state.is_codes && given.dtype() != DType::u8)
    throw DTypeError(fmt::format("[{}] state {} is {}, expected u8", name_, key, name_of(given.dtype())));
  const Tensor here = given.detach().to(slot.parameter.device());
  return state.is_codes ? here : here.to(state_dtype(slot.parameter.dtype()));
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
    slot.steps = count_of_updates(name_.c_str(), steps.mapped());
    for (const State& state : states_of(shape_of(slot))) {
      const auto found = left.extract(fmt::format("{}.{}", i, state.name));
      if (found.empty()) {
        missing.push_back(fmt::format("{}.{}", i, state.name));
        continue;
      }
      slot.tensors[state.name] = loaded_state(slot, state, found.key(), found.mapped());
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
  trace::host_state_changed();
}

}  // namespace heddle::nn
