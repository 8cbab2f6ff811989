#include "heddle/core/compile/compiled_call.h"

#include <algorithm>
#include <unordered_map>

#include "heddle/core/device/locked_device.h"
#include "heddle/core/graph/lender.h"
#include "heddle/core/graph/trace_handles.h"

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
  if (group.lent ? !is_lent(node) : !node.has_value() || node.overwritten) return false;
  if (node.device != group.device || node.dtype != group.dtype || node.tracks != group.tracks) return false;
  if (impl->requires_grad != group.requires_grad || impl->hooks.size() != group.hooks ||
      (node.host != nullptr) != group.hosted)
    return false;
  if (node.shape != group.shape) return false;
  if (group.same_node_as >= 0 && found_[static_cast<size_t>(group.same_node_as)]->node != impl->node) return false;
  found_.push_back(impl);
  return true;
}

bool CompiledCall::fits_leaves() {
  return std::ranges::all_of(segments_, [this](const Segment& segment) { return fits_leaves(segment); });
}

bool CompiledCall::fits_leaves(const Segment& segment) {
  slots_.assign(segment.written_slots.size(), nullptr);
  for (const Leaf& leaf : segment.leaves) {
    if (leaf.slot < 0 || leaf.group < 0 || groups_[static_cast<size_t>(leaf.group)].lent) continue;
    const Node& node = *found_[static_cast<size_t>(leaf.group)]->node;
    if (!(node.view == leaf.view)) return false;
    const StoragePtr*& storage = slots_[static_cast<size_t>(leaf.slot)];
    if (storage == nullptr)
      storage = &node.storage;
    else if (*storage != node.storage)
      return false;
  }
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    // The node owns it; another one would see the update.
    if (segment.written_slots[slot] && (slots_[slot] == nullptr || slots_[slot]->use_count() != 1)) return false;
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

void CompiledCall::release() { found_.clear(); }

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

std::vector<HostValue> CompiledCall::draw() const {
  std::vector<HostValue> drawn(actions_.size());
  for (size_t a = 0; a < actions_.size(); ++a) {
    if (actions_[a].effect)
      actions_[a].effect();
    else
      drawn[a] = actions_[a].source();
  }
  return drawn;
}

const GraphOutput& CompiledCall::output_of(const Run& run, const Output& output) const {
  return run.results[static_cast<size_t>(output.segment)].outputs[static_cast<size_t>(output.number)];
}

void CompiledCall::run_segment(size_t number, Run& run, const Ready& ready) const {
  const Segment& segment = segments_[number];
  Capture bound;
  bound.bases = segment.bases;
  bound.storages.resize(segment.written_slots.size());
  for (const Leaf& leaf : segment.leaves) {
    if (leaf.slot < 0) {
      bound.host_values.push_back(leaf.action >= 0 ? run.drawn[static_cast<size_t>(leaf.action)]
                                                   : *found_[static_cast<size_t>(leaf.group)]->node->host);
      continue;
    }
    StoragePtr& storage = bound.storages[static_cast<size_t>(leaf.slot)];
    if (storage == nullptr)
      storage =
          leaf.group < 0 ? output_of(run, leaf.output).storage : found_[static_cast<size_t>(leaf.group)]->node->storage;
  }
  run.results[number] = segment.graph->run(bound, run.known != nullptr ? &run.known->own : nullptr, ready);
  if (segments_.size() > 1) run.results[number].own.clear();  // outputs are let go of one by one
}

void CompiledCall::hand_over(size_t place, const Run& run, const Made& made) const {
  const Output& handed = handed_[place];
  const GraphOutput& output = output_of(run, handed);
  const DType dtype = segments_[static_cast<size_t>(handed.segment)].output_dtypes[static_cast<size_t>(handed.number)];
  made(place, Tensor(make_leaf(output.storage, output.view, dtype)));
}

void CompiledCall::take(const Step& step, Run& run, const Ready& ready, const Made& made) const {
  switch (step.kind) {
    case Step::Kind::run:
      return run_segment(step.number, run, ready);
    case Step::Kind::lend:
      return LenderScope::current()->lend(step.number);
    case Step::Kind::fetch:
      return LenderScope::current()->fetch(step.number);
    case Step::Kind::take_back:
      return LenderScope::current()->take_back(step.number);
    case Step::Kind::hand_over:
      return hand_over(step.number, run, made);
    case Step::Kind::drop:
      run.results[step.number].outputs[step.output].storage.reset();
  }
}

void CompiledCall::run(const std::vector<Tensor*>& results, const Ready& ready, const Made& made) {
  Run run{.drawn = draw(), .results = std::vector<GraphResult>(segments_.size()), .known = reusable()};
  if (device_) device_->lock().counters.compiled_replays++;
  for (const Step& step : steps_) take(step, run, ready, made);
  if (run.known == nullptr) run.known = make_results(run);
  const std::vector<Tensor>& states = run.known->made;
  for (const Update& u : updates_) update(u, output_of(run, u.output));
  const auto value_of = [&](const Value& value) {
    if (value.kind == Value::Kind::nothing) return Tensor();
    return value.kind == Value::Kind::group ? Tensor(found_[static_cast<size_t>(value.index)])
                                            : states[static_cast<size_t>(value.index)];
  };
  for (const Rebind& rebind : rebinds_)
    const_cast<Tensor&>(*resolve(rebind.origin, {}, found_)) = value_of(rebind.value);
  const size_t handed = results.size() - results_.size();
  for (size_t r = 0; r < results_.size(); ++r) *results[handed + r] = value_of(results_[r]);
  if (!keeps_sets_) sets_.clear();
  found_.clear();
}

// Sets are kept while they are small: as many as a loop has alive, which drops the results of a call before or after
// the next one.
const ResultSet* CompiledCall::make_results(Run& run) {
  constexpr size_t most_sets = 3;
  constexpr uint64_t most_bytes = 256 << 10;
  std::vector<StoragePtr> own;
  if (segments_.size() == 1) own = std::move(run.results.front().own);
  uint64_t bytes = 0;
  for (const StoragePtr& storage : own) bytes += storage->bytes();
  keeps_sets_ = bytes <= most_bytes && segments_.size() <= 1;
  if (sets_.size() >= most_sets) sets_.erase(sets_.begin());
  ResultSet& set = sets_.emplace_back();
  set.made.reserve(made_.size());
  for (const MadeState& m : made_) {
    if (m.group >= 0) {
      keeps_sets_ = false;  // shares a value of the caller's
      const Node& node = *found_[static_cast<size_t>(m.group)]->node;
      set.made.emplace_back(node.host ? make_host_leaf(*node.device, *node.host, node.shape, node.dtype)
                                      : make_leaf(node.storage, node.view, node.dtype));
      continue;
    }
    const GraphOutput& output = output_of(run, m.output);
    const Segment& segment = segments_[static_cast<size_t>(m.output.segment)];
    set.made.emplace_back(
        make_leaf(output.storage, output.view, segment.output_dtypes[static_cast<size_t>(m.output.number)]));
  }
  set.own = std::move(own);
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
  const auto same = [&](const auto& part) { return std::ranges::equal(segments_, other.segments_, {}, part, part); };
  if (device_ != other.device_) return "the device";
  if (groups_ != other.groups_ || aliases_ != other.aliases_) return "the tensors that it reads";
  if (!same(&Segment::leaves)) return "how the tensors that it reads lie in memory";
  if (!same(&Segment::key) || steps_ != other.steps_ || handed_ != other.handed_) return "the operations";
  if (!same(&Segment::written_slots) || updates_ != other.updates_) return "the tensors that it assigns";
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

}  // namespace heddle
