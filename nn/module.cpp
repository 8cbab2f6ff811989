#include "heddle/nn/module.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <span>
#include <unordered_set>

#include "heddle/core/base/print_error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/custom.h"

namespace heddle::nn {
namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

// Puts another value under the same handle, so that whoever shares it follows.
void replace_in_place(Tensor& tensor, const std::function<Tensor(const Tensor&)>& change) {
  const bool trained = tensor.impl()->requires_grad;
  const NoGradScope no_grad;
  const Tensor changed = change(tensor.detach());
  tensor.zero_grad();
  tensor.impl()->set_node(changed.node());
  if (trained) tensor.set_requires_grad();
}

// The first names and how many more there are.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t most = 5;
  const auto shown = std::span(names).first(std::min(names.size(), most));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

// What makes a state fit whose names are not the module's.
std::string cure_for(const std::vector<std::string>& missing, const std::vector<std::string>& unexpected) {
  const auto any = [&](const auto& holds) { return std::any_of(unexpected.begin(), unexpected.end(), holds); };
  if (missing.empty() && any([](const std::string& name) { return name.ends_with(".num_batches_tracked"); })) {
    return "it looks like torchvision's: load_state_dict(nn::from_torchvision(state))";
  }
  if (any([](const std::string& name) {
        return name.starts_with("transformer.") || name.ends_with(".attn.bias") ||
               name.ends_with(".attn.masked_bias") || name == "lm_head.weight";
      })) {
    return "it looks like a GPT-2 of Hugging Face or nanoGPT: load_state_dict(nn::from_gpt2(state))";
  }
  if (any([](const std::string& name) { return name.starts_with("module."); }))
    return "its names begin with \"module.\", as PyTorch's DataParallel saves them: strip that";
  return "likely saved from another model; nn::load_matching(model, state) loads what fits and says what does not "
         "(nn/weights.h)";
}

}  // namespace

struct Module::State {
  std::string kind;
  bool training = true;
  NamedTensors parameters;
  NamedTensors buffers;
  std::vector<std::pair<std::string, Module>> children;
  size_t hooks = 0;                         // registered so far
  std::unordered_set<const State*> called;  // by its forward, and looked for among its parts
  std::map<size_t, PreHook> before;
  std::map<size_t, ForwardHook> after;
  std::map<size_t, BackwardHook> backward;
};

Module::Module(std::shared_ptr<State> state) : state_(std::move(state)) {}
Module::Module(std::string kind) : state_(std::make_shared<State>()) { state_->kind = std::move(kind); }

namespace {
thread_local const Module* under_way = nullptr;
}

// While alive, the module's forward is under way on this thread.
class Module::CallScope {
 public:
  explicit CallScope(const Module& module) : outer_(under_way) {
    if (outer_ != nullptr) outer_->note_call(module);
    under_way = &module;
  }
  ~CallScope() { under_way = outer_; }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  const Module* outer_;
};

Tensor Module::operator()(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  const CallScope call(*this);
  const bool hooked = !state_->before.empty() || !state_->after.empty() || !state_->backward.empty();
  return hooked ? with_hooks(x) : forward(x);
}

// No handle is copied or asked: compile() would take that for something that this call of a step reads, and the next
// one does not.
template <class Predicate>
bool Module::any_parameter(const Predicate& holds) const {
  const auto own = [&](const auto& named) { return named.second.impl() && holds(named.second.impl().get()); };
  return std::any_of(state_->parameters.begin(), state_->parameters.end(), own) ||
         std::any_of(state_->children.begin(), state_->children.end(),
                     [&](const auto& child) { return child.second.any_parameter(holds); });
}

bool Module::holds(const Module& part) const {
  return std::any_of(state_->children.begin(), state_->children.end(),
                     [&](const auto& child) { return child.second.state_ == part.state_ || child.second.holds(part); });
}

void Module::note_call(const Module& part) const {
  if (part.state_ == state_ || !state_->called.insert(part.state_.get()).second || holds(part)) return;
  // Tensors of the part may have been registered by themselves, as VitBlock does with those of its projection.
  const auto forgotten = [&](const TensorImpl* parameter) {
    return parameter->node->tracks &&
           !any_parameter([&](const TensorImpl* registered) { return registered == parameter; });
  };
  if (!part.any_parameter(forgotten)) return;
  const std::string place = current_line().str();
  print_error(
      "heddle: {} calls a {} that is none of its parts{}: it is neither trained, saved nor moved with it; register it, "
      "as in fc1 = add(\"fc1\", nn::Linear(784, 128))\n",
      kind(), part.kind(), place.empty() ? "" : " (" + place + ")");
}

Tensor Module::forward(const Tensor&) {
  throw ValueError(fmt::format("[module] {} has no forward(x); a module with one input overrides it", state_->kind));
}

Tensor Module::with_hooks(const Tensor& given) {
  Tensor x = given;
  // Copies: a hook may register or remove another.
  for (const auto& [number, hook] : std::map(state_->before)) {
    if (const Tensor other = hook(*this, x); other.defined()) x = other;
  }
  Tensor y = forward(x);
  for (const auto& [number, hook] : std::map(state_->after)) {
    if (const Tensor other = hook(*this, x, y); other.defined()) y = other;
  }
  if (state_->backward.empty() || !y.requires_grad()) return y;
  // The hooks belong to the graph, not to a handle of y, which may be gone by then.
  auto rule = std::make_shared<CustomRule>();
  rule->name = "backward hook";
  rule->arguments = 1;
  rule->vjp = [module = Module(state_)](std::span<const Tensor>, const Tensor& cotangent) {
    return std::vector<Tensor>{module.run_backward_hooks(cotangent)};
  };
  rule->jvp = [](std::span<const Tensor>, std::span<const Tensor> tangents) { return tangents[0]; };
  return make_custom(y, std::span(&y, 1), std::move(rule));
}

Tensor Module::run_backward_hooks(const Tensor& cotangent) const {
  Tensor g = cotangent;
  Module handle(state_);
  for (const auto& [number, hook] : std::map(state_->backward)) {
    const Tensor other = hook(handle, g);
    if (!other.defined()) continue;
    if (other.shape() != g.shape() || other.dtype() != g.dtype()) {
      throw GradError(
          fmt::format("[hook] a backward hook of {} gave {} {} for a gradient of {} {}; both must be the same", kind(),
                      other.shape().str(), name_of(other.dtype()), g.shape().str(), name_of(g.dtype())));
    }
    g = other;
  }
  return g;
}

size_t Module::register_forward_pre_hook(PreHook hook) {
  trace::host_state_changed();
  state_->before.emplace(++state_->hooks, std::move(hook));
  return state_->hooks;
}

size_t Module::register_forward_hook(ForwardHook hook) {
  trace::host_state_changed();
  state_->after.emplace(++state_->hooks, std::move(hook));
  return state_->hooks;
}

size_t Module::register_backward_hook(BackwardHook hook) {
  trace::host_state_changed();
  state_->backward.emplace(++state_->hooks, std::move(hook));
  return state_->hooks;
}

void Module::remove_hook(size_t number) {
  trace::host_state_changed();
  if (state_->before.erase(number) + state_->after.erase(number) + state_->backward.erase(number) != 1) {
    throw ValueError(
        fmt::format("[module] {} has no hook with the number {}; was it removed already?", state_->kind, number));
  }
}

const std::string& Module::kind() const { return state_->kind; }
bool Module::training() const { return state_->training; }

void Module::check_name(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw ValueError(fmt::format("[module] '{}' is no name for a part of {}: it must not be empty or hold a dot", name,
                                 state_->kind));
  }
  const auto taken = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& entry) { return entry.first == name; });
  };
  if (taken(state_->parameters) || taken(state_->buffers) || taken(state_->children)) {
    throw ValueError(fmt::format("[module] {} has a part named '{}' already", state_->kind, name));
  }
}

Tensor Module::add_parameter(const std::string& name, Tensor value) {
  check_name(name);
  value.set_requires_grad();
  state_->parameters.emplace_back(name, value);
  return value;
}

Tensor Module::add_buffer(const std::string& name, Tensor value) {
  check_name(name);
  state_->buffers.emplace_back(name, value);
  return value;
}

void Module::attach(const std::string& name, const Module& child) {
  check_name(name);
  if (child.state_ == state_)
    throw ValueError(fmt::format("[module] {} cannot be its own part '{}'", state_->kind, name));
  state_->children.emplace_back(name, Module(child.state_));
}

void Module::collect(const std::string& prefix, NamedTensors State::*list, NamedTensors& into) const {
  for (const auto& [name, tensor] : (*state_).*list) into.emplace_back(joined(prefix, name), tensor);
  for (const auto& [name, child] : state_->children) child.collect(joined(prefix, name), list, into);
}

NamedTensors Module::named_parameters() const {
  NamedTensors all;
  collect("", &State::parameters, all);
  return all;
}

NamedTensors Module::named_buffers() const {
  NamedTensors all;
  collect("", &State::buffers, all);
  return all;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> all;
  for (auto& [name, tensor] : named_parameters()) {
    const bool shared =
        std::any_of(all.begin(), all.end(), [&](const Tensor& seen) { return seen.impl() == tensor.impl(); });
    if (!shared) all.push_back(tensor);  // tied weights are one parameter
  }
  return all;
}

std::vector<std::pair<std::string, Module>> Module::named_children() const { return state_->children; }

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

Module& Module::train(bool on) {
  if (state_->training != on) trace::host_state_changed();
  state_->training = on;
  for (auto& [name, child] : state_->children) child.train(on);
  return *this;
}

void Module::zero_grad() {
  for (Tensor& parameter : parameters()) parameter.zero_grad();
}

void Module::requires_grad(bool on) {
  for (Tensor& parameter : parameters()) parameter.set_requires_grad(on);
}

void Module::to(DeviceContext& device) {
  for (auto& [name, tensor] : state_dict()) {
    if (&tensor.device() != &device) replace_in_place(tensor, [&](const Tensor& x) { return x.to(device); });
  }
}

void Module::to(std::string_view device_id) { to(heddle::device(device_id)); }

void Module::to(DType dtype) {
  if (!is_float(dtype))
    throw DTypeError(
        fmt::format("[Module::to] {} is no floating dtype; expected f32, f16, bf16 or f64", name_of(dtype)));
  for (auto& [name, tensor] : state_dict()) {
    if (is_float(tensor.dtype()) && tensor.dtype() != dtype)
      replace_in_place(tensor, [&](const Tensor& x) { return cast(x, dtype); });
  }
}

void Module::apply_below(const std::string& path, const Callable<void(const std::string&, Module&)>& f) {
  for (auto& [name, child] : state_->children) child.apply_below(joined(path, name), f);
  f(path, *this);
}

void Module::apply(const Callable<void(const std::string&, Module&)>& f) { apply_below("", f); }

StateDict Module::state_dict() const {
  StateDict state;
  for (auto& [name, tensor] : named_parameters()) state.emplace(name, tensor);
  for (auto& [name, tensor] : named_buffers()) state.emplace(name, tensor);
  return state;
}

void Module::load_state_dict(const StateDict& state) {
  const StateDict own = state_dict();
  std::vector<std::string> missing, unexpected;
  for (const auto& [name, tensor] : own) {
    if (!state.contains(name)) missing.push_back(name);
  }
  for (const auto& [name, tensor] : state) {
    if (!own.contains(name)) unexpected.push_back(name);
  }
  if (!missing.empty() || !unexpected.empty()) {
    throw ValueError(fmt::format("[load_state_dict] the state does not fit {}: missing [{}], unexpected [{}]; {}",
                                 state_->kind, listed(missing), listed(unexpected), cure_for(missing, unexpected)));
  }
  std::vector<std::string> shapes, dtypes;
  for (const auto& [name, tensor] : own) {
    const Tensor& value = state.at(name);
    if (value.shape() != tensor.shape())
      shapes.push_back(
          fmt::format("{} has shape {} but the state has {}", name, tensor.shape().str(), value.shape().str()));
    if (value.dtype() != tensor.dtype())
      dtypes.push_back(
          fmt::format("{} is {} but the state has {}", name, name_of(tensor.dtype()), name_of(value.dtype())));
  }
  if (!shapes.empty())
    throw ShapeError(
        fmt::format("[load_state_dict] {}; likely saved from a model of another size", fmt::join(shapes, "; ")));
  if (!dtypes.empty()) throw DTypeError(fmt::format("[load_state_dict] {}", fmt::join(dtypes, "; ")));
  const NoGradScope no_grad;
  for (const auto& [name, tensor] : own) {
    if (state.at(name).impl() == tensor.impl()) continue;  // its own state
    Tensor target = tensor;
    target.assign(state.at(name).detach().to(target.device()));
  }
}

}  // namespace heddle::nn
