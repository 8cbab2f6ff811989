#include "core/exec/evaluate.h"

#include <algorithm>
#include <exception>
#include <unordered_set>

#include "core/exec/ir.h"
#include "core/exec/pending.h"
#include "core/exec/step.h"
#include "core/exec/step_result.h"
#include "core/graph/primitives.h"
#include "core/graph/reference.h"
#include "core/graph/tensor.h"
#include "core/kernel/tuning.h"

namespace heddle {
namespace {

// Past this many recorded nodes a thread evaluates what it holds, so that an unobserved loop cannot fill the memory.
constexpr size_t max_pending = 20000;

struct ThreadState {
  std::vector<std::weak_ptr<Node>> pending;
  int paused = 0;
};

ThreadState& state() {
  thread_local ThreadState instance;
  return instance;
}

// The node has its value; its past is only kept for gradients.
void give_value(Node& node, StoragePtr storage, const View& view) {
  node.storage = std::move(storage);
  node.view = view;
  if (!node.tracks || node.op == &ops::assign_op) {
    const std::vector<NodePtr> past = std::move(node.inputs);
    node.inputs.clear();
  }
}

void run_reference(DeviceContext& device, const Capture& captured) {
  const std::vector<HostArray> values = evaluate_reference(captured.outputs);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::vector<uint8_t> bytes = host_array_to_bytes(values[i]);
    StoragePtr storage = device.allocate(bytes.size());
    if (!bytes.empty()) device.write(*storage, 0, bytes.data(), bytes.size());
    give_value(*captured.outputs[i], std::move(storage), View::dense(values[i].shape));
  }
}

void run_compiled(DeviceContext& device, Capture& captured) {
  const bool fuse = !eager_mode();
  captured.key.push_back(fuse);
  captured.key.push_back(tuning_state());
  auto locked = device.lock();
  std::shared_ptr<Step> step = device.steps().find(captured.key);
  if (step) {
    locked.counters.step_hits++;
  } else {
    step = Step::compile(device, captured, fuse);
    device.steps().insert(captured.key, step);
    locked.counters.steps_compiled++;
  }
  StepResult result = step->run(device, captured);
  for (Node* node : captured.overwritten) {
    node->overwritten = true;
    node->storage.reset();
  }
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    give_value(*captured.outputs[i], std::move(result.outputs[i].storage), result.outputs[i].view);
  }
}

void evaluate_on(DeviceContext& device, std::span<const NodePtr> roots) {
  Capture captured = capture(roots);
  if (captured.outputs.empty()) return;
  if (device.caps().target == Target::none) run_reference(device, captured);
  else run_compiled(device, captured);
}

// What could not be computed stays pending, so that a later evaluation finds it again. When the roots alone do work (another held tensor is at fault: too
// large, or a kernel that no driver takes), nobody who asked for them needs to know: the failure is thrown to who looks at that tensor.
// Returns what to throw; null: nothing.
std::exception_ptr after_failure(DeviceContext& device, const std::vector<NodePtr>& all, std::span<const NodePtr> roots, std::exception_ptr failure) {
  const bool lost = device.lost();  // then nothing of it will ever be computed: who looks at a value is told
  std::vector<NodePtr> asked;
  for (const NodePtr& root : roots) {
    if (root->device == &device && !root->has_value()) asked.push_back(root);
  }
  if (!lost && !asked.empty() && asked.size() < all.size()) {
    try {
      evaluate_on(device, asked);
      failure = nullptr;
    } catch (...) {  // the first failure says more
    }
  } else if (asked.empty() && !roots.empty()) {
    failure = nullptr;  // nothing of this device was asked for
  }
  std::vector<std::weak_ptr<Node>>& pending = state().pending;
  for (const NodePtr& node : all) {
    if (!lost && !node->has_value()) pending.push_back(node);
  }
  return failure;
}

}  // namespace

PendingPause::PendingPause() { ++state().paused; }
PendingPause::~PendingPause() { --state().paused; }

std::vector<NodePtr> held_pending() {
  std::vector<NodePtr> held;
  for (const std::weak_ptr<Node>& weak : state().pending) {
    NodePtr node = weak.lock();
    if (node && !node->has_value() && node->handles.load(std::memory_order_relaxed) > 0) held.push_back(std::move(node));
  }
  return held;
}

void evaluate(std::span<const NodePtr> roots) {
  std::vector<NodePtr> all = held_pending();
  state().pending.clear();
  std::unordered_set<const Node*> known;
  for (const NodePtr& node : all) known.insert(node.get());
  for (const NodePtr& root : roots) {
    if (!root->has_value() && known.insert(root.get()).second) all.push_back(root);
  }
  // One capture per device, in order of first appearance. A device that fails does not keep the others from their work.
  std::exception_ptr failure;
  while (!all.empty()) {
    DeviceContext* device = all.front()->device;
    const auto rest = std::stable_partition(all.begin(), all.end(), [&](const NodePtr& node) { return node->device == device; });
    const std::vector<NodePtr> here(all.begin(), rest);
    all.erase(all.begin(), rest);
    try {
      evaluate_on(*device, here);
    } catch (...) {
      const std::exception_ptr now = after_failure(*device, here, roots, std::current_exception());
      if (!failure) failure = now;
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void evaluate_pending() { evaluate({}); }

void note_pending(const NodePtr& node) {
  ThreadState& thread = state();
  if (thread.paused > 0) return;
  if (eager_mode()) {
    const NodePtr root[] = {node};
    evaluate(root);
    return;
  }
  thread.pending.push_back(node);
  if (thread.pending.size() > max_pending) {
    const NodePtr root[] = {node};
    evaluate(root);
  }
}

}  // namespace heddle
