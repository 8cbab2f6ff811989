#include "heddle/core/compile/compiled_call_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/core/graph/lender.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

std::unique_ptr<CompiledCall> CompiledCall::Builder::build(const Trace& trace, const Evaluation& evaluation,
                                                           const std::vector<const Tensor*>& arguments,
                                                           const std::vector<const Tensor*>& results) {
  Builder builder(trace, arguments, results, {});
  if (evaluation.graph) builder.add(evaluation);
  return builder.finish();
}

CompiledCall::Builder::Builder(const Trace& trace, const std::vector<const Tensor*>& arguments,
                               const std::vector<const Tensor*>& results, const std::vector<const Tensor*>& handed)
    : call_(new CompiledCall()), p_(*call_), trace_(trace), results_(results) {
  std::vector<const Tensor*> all = results;
  all.insert(all.end(), handed.begin(), handed.end());
  p_.actions_ = trace_.actions;
  for (const Trace::Action& action : trace_.actions) p_.action_kinds_.push_back(action.source ? 1 : 0);
  survivors_ = survivors(arguments, all);
  add_groups(arguments);
  add_handed(handed);
  for (const Tensor* result : results) p_.results_.push_back(value_of(result->impl(), true));
  add_rebinds();
  count_holders();
}

void CompiledCall::Builder::add(const Evaluation& evaluation) {
  if (!evaluation.graph) refuse(fmt::format("{} takes no kernels", evaluation.device->id()));
  if (p_.device_ != nullptr && p_.device_ != evaluation.device) refuse("it computes on several devices");
  p_.device_ = evaluation.device;
  p_.steps_.push_back({.kind = Step::Kind::run, .number = p_.segments_.size()});
  p_.segments_.push_back({.graph = evaluation.graph, .key = evaluation.captured.key});
  add_leaves(evaluation.captured);
  add_outputs(evaluation.captured);
}

void CompiledCall::Builder::add(const Step& step) { p_.steps_.push_back(step); }

std::unique_ptr<CompiledCall> CompiledCall::Builder::finish() {
  for (const auto& [impl, id] : made_of_) {
    MadeState& state = p_.made_[static_cast<size_t>(id)];
    if (const auto output = output_of_.find(impl->node.get()); output != output_of_.end())
      state = {.output = output->second, .group = -1};
    if (state.output.segment < 0 && state.group < 0)
      refuse(fmt::format("a {} {} tensor that outlives the call was made from data of the host",
                         impl->node->shape.str(), name_of(impl->node->dtype)));
  }
  add_updates();
  for (const Node* node : handed_) {
    const auto output = output_of_.find(node);
    if (output == output_of_.end()) refuse("a result that is handed over had its value before");
    p_.handed_.push_back(output->second);
  }
  if (p_.segments_.size() > 1) drop_outputs();
  return std::move(call_);
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
  const bool lent = is_lent(*state.node);
  if (!lent && !state.node->has_value() && !state.node->overwritten)
    refuse("a tensor that it reads had no value when it began");
  Group group{origin,
              state.node->shape,
              state.node->dtype,
              state.node->device,
              state.tracks,
              state.requires_grad,
              state.node->host != nullptr,
              lent,
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

void CompiledCall::Builder::add_groups(const std::vector<const Tensor*>& arguments) {
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

// Nobody else may know them: a replay makes others.
void CompiledCall::Builder::add_handed(const std::vector<const Tensor*>& handed) {
  for (const Tensor* result : handed) {
    const std::shared_ptr<TensorImpl>& impl = result->impl();
    if (!impl) refuse("a result that is handed over is an empty handle");
    const Node& node = *impl->node;
    if (impl.use_count() != 1 || impl->requires_grad || impl->grad.impl() || !impl->hooks.empty())
      refuse(kept_elsewhere(node));
    handed_.push_back(&node);
    ++holders_[&node];
  }
}

CompiledCall::Leaf CompiledCall::Builder::leaf_of(const Node& node, const Capture& captured) const {
  Leaf leaf;
  leaf.group = group_of_node(&node);
  if (node.host) {
    const auto source = trace_.action_of.find(&node);
    if (source != trace_.action_of.end())
      leaf.action = static_cast<int>(source->second);
    else if (leaf.group < 0)
      refuse(
          "it puts a number of the host into the graph (Tensor::host_scalar) without saying where the next one "
          "comes from; give host_scalar a function");
    return leaf;
  }
  if (leaf.group < 0) {
    const auto output = output_of_.find(&node);
    if (output == output_of_.end())
      refuse(
          fmt::format("it makes or reads a {} {} tensor that is neither an argument nor held by a handle it read "
                      "(data uploaded inside?)",
                      node.shape.str(), name_of(node.dtype)));
    leaf.output = output->second;
  }
  leaf.slot = static_cast<int>(std::find(captured.storages.begin(), captured.storages.end(), node.storage) -
                               captured.storages.begin());
  leaf.view = node.view;
  return leaf;
}

void CompiledCall::Builder::add_leaves(const Capture& captured) {
  Segment& segment = p_.segments_.back();
  segment.written_slots.assign(captured.storages.size(), false);
  segment.bases = captured.bases;
  for (const int slot : captured.assign_slots) {
    if (slot >= 0) segment.written_slots[static_cast<size_t>(slot)] = true;
  }
  for (const NodePtr& node : captured.order) {
    if (!node->has_value()) continue;
    segment.leaves.push_back(leaf_of(*node, captured));
    const Leaf& leaf = segment.leaves.back();
    const bool of_caller = leaf.group >= 0 && !p_.groups_[static_cast<size_t>(leaf.group)].lent;
    if (leaf.slot >= 0 && segment.written_slots[static_cast<size_t>(leaf.slot)] && !of_caller)
      refuse("it assigns to what it made itself");
  }
}

void CompiledCall::Builder::add_outputs(const Capture& captured) {
  const int segment = static_cast<int>(p_.segments_.size()) - 1;
  for (size_t i = 0; i < captured.outputs.size(); ++i) {
    const Node* node = captured.outputs[i].get();
    const auto held = holders_.find(node);
    if (node->handles.load(std::memory_order_relaxed) != (held != holders_.end() ? held->second : 0))
      refuse(kept_elsewhere(*node));
    output_of_[node] = {.segment = segment, .number = static_cast<int>(i)};
    in_place_[node] = captured.assign_slots[i] >= 0;
    p_.segments_.back().output_dtypes.push_back(node->dtype);
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

// An output where one has its node (finish()).
CompiledCall::MadeState CompiledCall::Builder::make(const TensorImpl& impl, bool result) const {
  if (!result && (impl.node->tracks || impl.requires_grad))
    refuse(fmt::format("a {} tensor with gradient history outlives the call; detach() it", impl.node->shape.str()));
  if (impl.grad.impl() || !impl.hooks.empty())
    refuse("a tensor made inside outlives the call with a gradient or hook of its own");
  return {.output = {}, .group = group_of_node(impl.node.get())};
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
    p_.updates_.push_back({group->second, output->second, in_place_.at(state.impl->node.get())});
  }
}

void CompiledCall::Builder::count_holders() {
  std::unordered_map<const TensorImpl*, long> handles;
  for (const Tensor* result : results_) ++handles[result->impl().get()];
  for (const Tensor* handle : survivors_) ++handles[handle->impl().get()];
  for (const auto& [impl, id] : made_of_) {
    ++holders_[impl->node.get()];
    const auto counted = handles.find(impl);
    if (counted == handles.end() || counted->second != use_count(impl)) refuse(kept_elsewhere(*impl->node));
  }
  for (const Trace::State& state : trace_.states) ++holders_[state.impl->node.get()];
}

std::string CompiledCall::Builder::kept_elsewhere(const Node& node) {
  return fmt::format("a tensor made inside ({}) is kept somewhere outside", describe(node));
}

long CompiledCall::Builder::use_count(const TensorImpl* impl) const {
  for (const Tensor* result : results_) {
    if (result->impl().get() == impl) return result->impl().use_count();
  }
  for (const Tensor* handle : survivors_) {
    if (handle->impl().get() == impl) return handle->impl().use_count();
  }
  return -1;
}

// Whether it is somebody's at the end.
bool CompiledCall::Builder::is_kept(const Output& output) const {
  const auto is_it = [&](const auto& one) { return one.output == output; };
  return std::ranges::any_of(p_.made_, is_it) || std::ranges::any_of(p_.updates_, is_it);
}

// Behind the last step that reads an output.
void CompiledCall::Builder::drop_outputs() {
  std::vector<std::vector<size_t>> last(p_.segments_.size());  // by segment and output: a step
  for (size_t s = 0; s < p_.steps_.size(); ++s) {
    const Step& step = p_.steps_[s];
    if (step.kind == Step::Kind::hand_over) {
      const Output& handed = p_.handed_[step.number];
      last[static_cast<size_t>(handed.segment)][static_cast<size_t>(handed.number)] = s;
    }
    if (step.kind != Step::Kind::run) continue;
    last[step.number].assign(p_.segments_[step.number].output_dtypes.size(), s);
    for (const Leaf& leaf : p_.segments_[step.number].leaves) {
      if (leaf.output.segment >= 0)
        last[static_cast<size_t>(leaf.output.segment)][static_cast<size_t>(leaf.output.number)] = s;
    }
  }
  std::vector<std::vector<Step>> behind(p_.steps_.size());
  for (size_t segment = 0; segment < last.size(); ++segment) {
    for (size_t i = 0; i < last[segment].size(); ++i) {
      if (!is_kept({.segment = static_cast<int>(segment), .number = static_cast<int>(i)}))
        behind[last[segment][i]].push_back({.kind = Step::Kind::drop, .number = segment, .output = i});
    }
  }
  std::vector<Step> steps;
  for (size_t s = 0; s < behind.size(); ++s) {
    steps.push_back(p_.steps_[s]);
    steps.insert(steps.end(), behind[s].begin(), behind[s].end());
  }
  p_.steps_ = std::move(steps);
}

}  // namespace heddle
