#include "heddle/core/compile/compiled_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "heddle/core/device/locked_device.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

// ---- running

const Tensor* CompiledCall::resolve(const Origin& origin, const std::vector<const Tensor*>& arguments,
                                    const std::vector<std::shared_ptr<TensorImpl>>& impls) const {
  if (origin.kind == Origin::Kind::argument) return arguments[static_cast<size_t>(origin.index)];
  if (origin.kind == Origin::Kind::handle) return origin.handle;
  return &impls[static_cast<size_t>(origin.index)]->grad;
}

bool CompiledCall::fits_group(size_t g, const std::vector<const Tensor*>& arguments) {
  const Group& group = groups_[g];
  const std::shared_ptr<TensorImpl>& impl = resolve(group.origin, arguments, found_)->impl();
  if (!impl || !impl->node) return false;
  const Node& node = *impl->node;
  if (!node.has_value() || node.overwritten || node.device != group.device || node.dtype != group.dtype ||
      node.tracks != group.tracks)
    return false;
  if (impl->requires_grad != group.requires_grad || impl->hooks.size() != group.hooks ||
      (node.host != nullptr) != group.hosted)
    return false;
  if (node.shape != group.shape) return false;
  if (group.same_node_as >= 0 && found_[static_cast<size_t>(group.same_node_as)]->node != impl->node) return false;
  found_.push_back(impl);
  return true;
}

bool CompiledCall::fits_leaves() {
  storages_.assign(written_slots_.size(), nullptr);
  for (const Leaf& leaf : leaves_) {
    if (leaf.slot < 0) continue;
    const Node& node = *found_[static_cast<size_t>(leaf.group)]->node;
    if (!(node.view == leaf.view)) return false;
    StoragePtr& storage = storages_[static_cast<size_t>(leaf.slot)];
    if (storage == nullptr)
      storage = node.storage;
    else if (storage != node.storage)
      return false;
  }
  for (size_t slot = 0; slot < storages_.size(); ++slot) {
    // Two owners: the node, and storages_. Another one would see the update.
    if (written_slots_[slot] && storages_[slot].use_count() != 2) return false;
  }
  return true;
}

bool CompiledCall::fits(const std::vector<const Tensor*>& arguments) {
  release();
  if (!valid_->load(std::memory_order_acquire)) return false;
  bool all = true;
  for (size_t g = 0; g < groups_.size() && all; ++g) all = fits_group(g, arguments);
  for (size_t a = 0; a < aliases_.size() && all; ++a) {
    const std::shared_ptr<TensorImpl>& impl = resolve(aliases_[a].origin, arguments, found_)->impl();
    all = aliases_[a].group < 0 ? impl == nullptr : impl == found_[static_cast<size_t>(aliases_[a].group)];
  }
  if (all && fits_leaves()) return true;
  release();
  return false;
}

void CompiledCall::release() {
  found_.clear();
  storages_.clear();
}

void CompiledCall::update(const Update& update, const GraphOutput& output) {
  TensorImpl& impl = *found_[static_cast<size_t>(update.group)];
  const NodePtr& old = impl.node;
  // Nobody else knows the old node: it may stand for the new value.
  if (update.in_place && old.use_count() == 1 && old->storage == output.storage) return;
  NodePtr next = make_leaf(output.storage, output.view, old->dtype);
  if (update.in_place) {
    old->overwritten = true;
    old->storage.reset();
  }
  if (impl.requires_grad) {
    next->tracks = true;
    next->grad_target = found_[static_cast<size_t>(update.group)];
  }
  impl.set_node(std::move(next));
}

void CompiledCall::run(const std::vector<Tensor*>& results) {
  Capture bound;
  bound.storages = std::move(storages_);
  bound.bases = bases_;
  std::vector<HostValue> drawn(actions_.size());
  for (size_t a = 0; a < actions_.size(); ++a) {
    if (actions_[a].effect)
      actions_[a].effect();
    else
      drawn[a] = actions_[a].source();
  }
  for (const Leaf& leaf : leaves_) {
    if (leaf.slot >= 0) continue;
    bound.host_values.push_back(leaf.action >= 0 ? drawn[static_cast<size_t>(leaf.action)]
                                                 : *found_[static_cast<size_t>(leaf.group)]->node->host);
  }
  const ResultSet* known = reusable();
  GraphResult result;
  if (device_) {
    device_->lock().counters.compiled_replays++;
    result = graph_->run(bound, known ? &known->own : nullptr);
  }
  bound.storages.clear();
  if (known == nullptr) known = make_results(result);
  const std::vector<Tensor>& made = known->made;
  for (const Update& u : updates_) update(u, result.outputs[static_cast<size_t>(u.output)]);
  const auto value_of = [&](const Value& value) {
    if (value.kind == Value::Kind::nothing) return Tensor();
    return value.kind == Value::Kind::group ? Tensor(found_[static_cast<size_t>(value.index)])
                                            : made[static_cast<size_t>(value.index)];
  };
  for (const Rebind& rebind : rebinds_)
    const_cast<Tensor&>(*resolve(rebind.origin, {}, found_)) = value_of(rebind.value);
  for (size_t r = 0; r < results.size(); ++r) *results[r] = value_of(results_[r]);
  if (!keeps_sets_) sets_.clear();
  found_.clear();
}

// Sets are kept while they are small: as many as a loop has alive, which drops the results of a call before or after
// the next one.
const ResultSet* CompiledCall::make_results(GraphResult& result) {
  constexpr size_t most_sets = 3;
  constexpr uint64_t most_bytes = 256 << 10;
  uint64_t bytes = 0;
  for (const StoragePtr& storage : result.own) bytes += storage->bytes();
  keeps_sets_ = bytes <= most_bytes;
  if (sets_.size() >= most_sets) sets_.erase(sets_.begin());
  ResultSet& set = sets_.emplace_back();
  set.made.reserve(made_.size());
  for (const Made& m : made_) {
    if (m.group >= 0) {
      keeps_sets_ = false;  // shares a value of the caller's
      const Node& node = *found_[static_cast<size_t>(m.group)]->node;
      set.made.emplace_back(node.host ? make_host_leaf(*node.device, *node.host, node.shape, node.dtype)
                                      : make_leaf(node.storage, node.view, node.dtype));
      continue;
    }
    const GraphOutput& output = result.outputs[static_cast<size_t>(m.output)];
    set.made.emplace_back(make_leaf(output.storage, output.view, output_dtypes_[static_cast<size_t>(m.output)]));
  }
  set.own = std::move(result.own);
  std::unordered_map<const Storage*, long> owners;
  for (const Tensor& t : set.made) ++owners[t.impl()->node->storage.get()];
  owners_.clear();
  for (const StoragePtr& storage : set.own) owners_.push_back(1 + owners[storage.get()]);
  return &set;
}

const ResultSet* CompiledCall::reusable() const {
  const auto free = [](const Tensor& t) {
    const std::shared_ptr<TensorImpl>& impl = t.impl();
    return impl.use_count() == 1 && impl->node.use_count() == 1 && !impl->requires_grad && !impl->node->tracks &&
           !impl->grad.impl() && impl->hooks.empty();
  };
  for (const ResultSet& set : sets_) {
    if (!std::all_of(set.made.begin(), set.made.end(), free)) continue;
    bool unshared = true;
    for (size_t i = 0; i < set.own.size() && unshared; ++i) unshared = set.own[i].use_count() == owners_[i];
    if (unshared) return &set;
  }
  return nullptr;
}

// ---- comparing and watching

std::string_view CompiledCall::difference(const CompiledCall& other) const {
  if (device_ != other.device_) return "the device";
  if (groups_ != other.groups_ || aliases_ != other.aliases_) return "the tensors that it reads";
  if (leaves_ != other.leaves_) return "how the tensors that it reads lie in memory";
  if (key_ != other.key_) return "the operations";
  if (written_slots_ != other.written_slots_ || updates_ != other.updates_) return "the tensors that it assigns";
  if (action_kinds_ != other.action_kinds_) return "the numbers that it draws";
  if (rebinds_ != other.rebinds_) return "the handles that it rebinds";
  return made_ != other.made_ || results_ != other.results_ ? "the results" : "";
}

void CompiledCall::watch() {
  const auto add = [this](const Origin& origin) {
    if (origin.kind != Origin::Kind::handle) return;
    trace::watch(*origin.handle, valid_);
    watched_.push_back(origin.handle);
  };
  for (const Group& group : groups_) add(group.origin);
  for (const Alias& alias : aliases_) add(alias.origin);
  for (const Rebind& rebind : rebinds_) add(rebind.origin);
}

CompiledCall::~CompiledCall() {
  for (const Tensor* handle : watched_) trace::unwatch(handle, valid_);
}

// ---- making

class CompiledCall::Builder {
 public:
  Builder(CompiledCall& program, const Trace& trace, const Evaluation& evaluation)
      : p_(program), trace_(trace), evaluation_(evaluation) {}

  void run(const std::vector<const Tensor*>& arguments, const std::vector<const Tensor*>& results) {
    p_.device_ = evaluation_.device;
    p_.graph_ = evaluation_.graph;
    p_.key_ = evaluation_.captured.key;
    p_.actions_ = trace_.actions;
    for (const Trace::Action& action : trace_.actions) p_.action_kinds_.push_back(action.source ? 1 : 0);
    add_groups(arguments, results);
    add_leaves();
    for (size_t i = 0; i < evaluation_.captured.outputs.size(); ++i) {
      output_of_[evaluation_.captured.outputs[i].get()] = static_cast<int>(i);
      p_.output_dtypes_.push_back(evaluation_.captured.outputs[i]->dtype);
    }
    for (const Tensor* result : results) p_.results_.push_back(value_of(result->impl(), true));
    add_rebinds();
    add_updates();
    check_holders(results);
  }

 private:
  [[noreturn]] static void refuse(std::string why) { throw NotReplayable{std::move(why)}; }

  // Handles that are there after the call, in the order in which it met them.
  std::vector<const Tensor*> survivors(const std::vector<const Tensor*>& arguments,
                                       const std::vector<const Tensor*>& results) const {
    std::vector<const Tensor*> all;
    const auto among = [](const std::vector<const Tensor*>& list, const Tensor* handle) {
      return std::find(list.begin(), list.end(), handle) != list.end();
    };
    for (const auto& [handle, touched] : trace_.handles) {
      if (!among(arguments, handle) && !among(results, handle)) all.push_back(handle);
    }
    std::sort(all.begin(), all.end(), [&](const Tensor* a, const Tensor* b) {
      return trace_.handles.at(a).order < trace_.handles.at(b).order;
    });
    return all;
  }

  // The origin of a handle that may be the gradient of a state; groups must stand before those that hang on them.
  Origin origin_of_handle(const Tensor* handle) const {
    for (const auto& [impl, group] : group_of_) {
      if (&impl->grad == handle) return {Origin::Kind::gradient, group, nullptr};
    }
    return {Origin::Kind::handle, -1, handle};
  }

  void add_group(const TensorImpl* impl, const Origin& origin) {
    const auto at = trace_.state_of.find(impl);
    if (at == trace_.state_of.end()) return;
    const Trace::State& state = trace_.states[at->second];
    if (!state.node->has_value() && !state.node->overwritten)
      refuse("a tensor that it reads had no value when it began");
    Group group{origin,
                state.node->shape,
                state.node->dtype,
                state.node->device,
                state.tracks,
                state.requires_grad,
                state.node->host != nullptr,
                state.hooks,
                -1};
    const int id = static_cast<int>(p_.groups_.size());
    const auto [known, fresh] = group_of_node_.try_emplace(state.node.get(), id);
    if (!fresh) group.same_node_as = known->second;
    group_of_[impl] = id;
    p_.groups_.push_back(std::move(group));
  }

  bool is_gradient_of_state(const Tensor* handle) const {
    return std::any_of(trace_.states.begin(), trace_.states.end(),
                       [&](const Trace::State& s) { return &s.impl->grad == handle; });
  }

  void add_handle(const Tensor* handle) {
    const TensorImpl* before = trace_.handles.at(handle).before.get();
    if (trace_.handles.at(handle).fresh) return;
    const Origin origin = origin_of_handle(handle);
    if (before == nullptr)
      p_.aliases_.push_back({origin, -1});
    else if (const auto known = group_of_.find(before); known != group_of_.end())
      p_.aliases_.push_back({origin, known->second});
    else
      add_group(before, origin);
  }

  void add_groups(const std::vector<const Tensor*>& arguments, const std::vector<const Tensor*>& results) {
    for (size_t a = 0; a < arguments.size(); ++a) {
      const TensorImpl* impl = arguments[a]->impl().get();
      const Origin origin{Origin::Kind::argument, static_cast<int>(a), nullptr};
      if (impl == nullptr)
        p_.aliases_.push_back({origin, -1});
      else if (const auto known = group_of_.find(impl); known != group_of_.end())
        p_.aliases_.push_back({origin, known->second});
      else
        add_group(impl, origin);
    }
    survivors_ = survivors(arguments, results);
    // Gradients hang on the states that hold them.
    for (const Tensor* handle : survivors_) {
      if (!is_gradient_of_state(handle)) add_handle(handle);
    }
    for (const Tensor* handle : survivors_) {
      if (is_gradient_of_state(handle)) add_handle(handle);
    }
  }

  // The group whose value a node is: its own node, or a leaf made over it.
  int group_of_node(const Node* node) const {
    for (auto at = trace_.derived.find(node); at != trace_.derived.end() && !group_of_node_.contains(node);
         at = trace_.derived.find(node))
      node = at->second.get();
    const auto known = group_of_node_.find(node);
    return known == group_of_node_.end() ? -1 : known->second;
  }

  void add_leaves() {
    const Capture& captured = evaluation_.captured;
    p_.written_slots_.assign(captured.storages.size(), false);
    p_.bases_ = captured.bases;
    for (const int slot : captured.assign_slots) {
      if (slot >= 0) p_.written_slots_[static_cast<size_t>(slot)] = true;
    }
    for (const NodePtr& node : captured.order) {
      if (!node->has_value()) continue;
      Leaf leaf;
      leaf.group = group_of_node(node.get());
      if (node->host) {
        const auto source = trace_.action_of.find(node.get());
        if (source != trace_.action_of.end())
          leaf.action = static_cast<int>(source->second);
        else if (leaf.group < 0)
          refuse(
              "it puts a number of the host into the graph (Tensor::host_scalar) without saying where the next one "
              "comes from; give host_scalar a function");
      } else {
        if (leaf.group < 0)
          refuse(
              fmt::format("it makes or reads a {} {} tensor that is neither an argument nor held by a handle it read "
                          "(data uploaded inside?)",
                          node->shape.str(), name_of(node->dtype)));
        leaf.slot = static_cast<int>(std::find(captured.storages.begin(), captured.storages.end(), node->storage) -
                                     captured.storages.begin());
        leaf.view = node->view;
      }
      p_.leaves_.push_back(std::move(leaf));
    }
  }

  Value value_of(const std::shared_ptr<TensorImpl>& impl, bool result) {
    if (!impl) return {};
    if (const auto known = group_of_.find(impl.get()); known != group_of_.end())
      return {Value::Kind::group, known->second};
    const auto [at, fresh] = made_of_.try_emplace(impl.get(), static_cast<int>(p_.made_.size()));
    if (fresh) p_.made_.push_back(make(*impl, result));
    return {Value::Kind::made, at->second};
  }

  Made make(const TensorImpl& impl, bool result) const {
    if (!result && (impl.node->tracks || impl.requires_grad))
      refuse(fmt::format("a {} tensor with gradient history outlives the call; detach() it", impl.node->shape.str()));
    if (impl.grad.impl() || !impl.hooks.empty())
      refuse("a tensor made inside outlives the call with a gradient or hook of its own");
    Made made;
    if (const auto output = output_of_.find(impl.node.get()); output != output_of_.end())
      made.output = output->second;
    else
      made.group = group_of_node(impl.node.get());
    if (made.output < 0 && made.group < 0)
      refuse(fmt::format("a {} {} tensor that outlives the call was made from data of the host", impl.node->shape.str(),
                         name_of(impl.node->dtype)));
    return made;
  }

  void add_rebinds() {
    for (const Tensor* handle : survivors_) {
      const std::shared_ptr<TensorImpl>& now = handle->impl();
      if (now == trace_.handles.at(handle).before) continue;
      p_.rebinds_.push_back({origin_of_handle(handle), value_of(now, false)});
    }
  }

  void add_updates() {
    for (const Trace::State& state : trace_.states) {
      const auto group = group_of_.find(state.impl.get());
      if (state.impl->requires_grad != state.requires_grad || state.impl->hooks.size() != state.hooks)
        refuse("it changes requires_grad or hooks of a tensor");
      if (state.impl->node == state.node) {
        if (state.node->tracks != state.tracks) refuse("it changes requires_grad of a tensor");
        continue;
      }
      if (group == group_of_.end()) refuse("it changes a tensor whose handle it also destroyed");
      const auto output = output_of_.find(state.impl->node.get());
      if (output == output_of_.end() || state.impl->node->op != &ops::assign_op)
        refuse("it replaces the value of a tensor by other means than assign()");
      p_.updates_.push_back(
          {group->second, output->second, evaluation_.captured.assign_slots[static_cast<size_t>(output->second)] >= 0});
    }
  }

  // Everything that is kept of what the call made must be kept by a handle that is known: another one would miss what a
  // replay makes.
  void check_holders(const std::vector<const Tensor*>& results) const {
    std::unordered_map<const TensorImpl*, long> handles;
    for (const Tensor* result : results) ++handles[result->impl().get()];
    for (const Tensor* handle : survivors_) ++handles[handle->impl().get()];
    std::unordered_map<const Node*, int> holders;
    for (const auto& [impl, id] : made_of_) {
      ++holders[impl->node.get()];
      const auto counted = handles.find(impl);
      if (counted == handles.end() || counted->second != use_count(impl, results)) refuse(kept_elsewhere(*impl->node));
    }
    for (const Trace::State& state : trace_.states) ++holders[state.impl->node.get()];
    for (const NodePtr& output : evaluation_.captured.outputs) {
      if (output->handles.load(std::memory_order_relaxed) != holders[output.get()]) refuse(kept_elsewhere(*output));
    }
  }

  static std::string kept_elsewhere(const Node& node) {
    return fmt::format("a tensor made inside ({}) is kept somewhere outside", describe(node));
  }

  long use_count(const TensorImpl* impl, const std::vector<const Tensor*>& results) const {
    for (const Tensor* result : results) {
      if (result->impl().get() == impl) return result->impl().use_count();
    }
    for (const Tensor* handle : survivors_) {
      if (handle->impl().get() == impl) return handle->impl().use_count();
    }
    return -1;
  }

  CompiledCall& p_;
  const Trace& trace_;
  const Evaluation& evaluation_;
  std::vector<const Tensor*> survivors_;
  std::unordered_map<const TensorImpl*, int> group_of_, made_of_;
  std::unordered_map<const Node*, int> group_of_node_, output_of_;
};

CompiledCall::CompiledCall(const Trace& trace, const Evaluation& evaluation,
                           const std::vector<const Tensor*>& arguments, const std::vector<const Tensor*>& results) {
  Builder(*this, trace, evaluation).run(arguments, results);
}

}  // namespace heddle
