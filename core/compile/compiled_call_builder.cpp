#include "heddle/core/compile/compiled_call_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/core/op/primitives.h"

namespace heddle {

std::unique_ptr<CompiledCall> CompiledCall::Builder::build(const Trace& trace, const Evaluation& evaluation,
                                                           const std::vector<const Tensor*>& arguments,
                                                           const std::vector<const Tensor*>& results) {
  std::unique_ptr<CompiledCall> call(new CompiledCall());
  Builder(*call, trace, evaluation).run(arguments, results);
  return call;
}

void CompiledCall::Builder::run(const std::vector<const Tensor*>& arguments,
                                const std::vector<const Tensor*>& results) {
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

void CompiledCall::Builder::refuse(std::string why) { throw NotReplayable{std::move(why)}; }

std::vector<const Tensor*> CompiledCall::Builder::survivors(const std::vector<const Tensor*>& arguments,
                                                            const std::vector<const Tensor*>& results) const {
  std::vector<const Tensor*> all;
  const auto among = [](const std::vector<const Tensor*>& list, const Tensor* handle) {
    return std::find(list.begin(), list.end(), handle) != list.end();
  };
  for (const auto& [handle, touched] : trace_.handles) {
    if (!among(arguments, handle) && !among(results, handle)) all.push_back(handle);
  }
  std::sort(all.begin(), all.end(),
            [&](const Tensor* a, const Tensor* b) { return trace_.handles.at(a).order < trace_.handles.at(b).order; });
  return all;
}

CompiledCall::Origin CompiledCall::Builder::origin_of_handle(const Tensor* handle) const {
  for (const auto& [impl, group] : group_of_) {
    if (&impl->grad == handle) return {Origin::Kind::gradient, group, nullptr};
  }
  return {Origin::Kind::handle, -1, handle};
}

void CompiledCall::Builder::add_group(const TensorImpl* impl, const Origin& origin) {
  const auto at = trace_.state_of.find(impl);
  if (at == trace_.state_of.end()) return;
  const Trace::State& state = trace_.states[at->second];
  if (!state.node->has_value() && !state.node->overwritten) refuse("a tensor that it reads had no value when it began");
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

bool CompiledCall::Builder::is_gradient_of_state(const Tensor* handle) const {
  return std::any_of(trace_.states.begin(), trace_.states.end(),
                     [&](const Trace::State& s) { return &s.impl->grad == handle; });
}

void CompiledCall::Builder::add_handle(const Tensor* handle) {
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

void CompiledCall::Builder::add_groups(const std::vector<const Tensor*>& arguments,
                                       const std::vector<const Tensor*>& results) {
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

int CompiledCall::Builder::group_of_node(const Node* node) const {
  for (auto at = trace_.derived.find(node); at != trace_.derived.end() && !group_of_node_.contains(node);
       at = trace_.derived.find(node))
    node = at->second.get();
  const auto known = group_of_node_.find(node);
  return known == group_of_node_.end() ? -1 : known->second;
}

void CompiledCall::Builder::add_leaves() {
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

CompiledCall::Value CompiledCall::Builder::value_of(const std::shared_ptr<TensorImpl>& impl, bool result) {
  if (!impl) return {};
  if (const auto known = group_of_.find(impl.get()); known != group_of_.end())
    return {Value::Kind::group, known->second};
  const auto [at, fresh] = made_of_.try_emplace(impl.get(), static_cast<int>(p_.made_.size()));
  if (fresh) p_.made_.push_back(make(*impl, result));
  return {Value::Kind::made, at->second};
}

CompiledCall::Made CompiledCall::Builder::make(const TensorImpl& impl, bool result) const {
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

void CompiledCall::Builder::add_rebinds() {
  for (const Tensor* handle : survivors_) {
    const std::shared_ptr<TensorImpl>& now = handle->impl();
    if (now == trace_.handles.at(handle).before) continue;
    p_.rebinds_.push_back({origin_of_handle(handle), value_of(now, false)});
  }
}

void CompiledCall::Builder::add_updates() {
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

void CompiledCall::Builder::check_holders(const std::vector<const Tensor*>& results) const {
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

std::string CompiledCall::Builder::kept_elsewhere(const Node& node) {
  return fmt::format("a tensor made inside ({}) is kept somewhere outside", describe(node));
}

long CompiledCall::Builder::use_count(const TensorImpl* impl, const std::vector<const Tensor*>& results) const {
  for (const Tensor* result : results) {
    if (result->impl().get() == impl) return result->impl().use_count();
  }
  for (const Tensor* handle : survivors_) {
    if (handle->impl().get() == impl) return handle->impl().use_count();
  }
  return -1;
}

}  // namespace heddle
