#include "heddle/core/graph/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <unordered_set>

#include "heddle/core/base/error.h"
#include "heddle/core/base/host_span.h"
#include "heddle/core/base/of_this_thread.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/graph/excess_precision.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/number_guard.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/graph/run_once.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/graph/trace.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/inspect/profile.h"
#include "heddle/core/ir/ir.h"
#include "heddle/core/memory/memory_budget.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/repeats.h"
#include "heddle/core/reference/reference.h"
#include "heddle/core/run/chains.h"
#include "heddle/core/run/debug.h"
#include "heddle/core/run/evaluation.h"
#include "heddle/core/run/graph_cache.h"
#include "heddle/core/run/lent_segments.h"
#include "heddle/core/run/number_check.h"
#include "heddle/core/simplify/passes.h"
#include "heddle/core/tiles/inexact.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {
namespace {

// Past this many recorded nodes a thread evaluates what it holds, so that an unobserved loop cannot fill the memory. A
// function that compile() traces ends by itself, and what is cut off keeps values that its one plan would not: all of
// a deep model's step, with its update, stays below.
constexpr size_t max_pending = 20'000, max_traced = 500'000;

struct ThreadState {
  Repeats repeats;
  bool at_repeat = false;  // the evaluation under way ends a period
};

thread_local EvaluationWatch* watch_of_thread = nullptr;

ThreadState& state() { return of_this_thread<ThreadState>(); }

std::string at_line() {
  const std::string place = current_line().str();
  return place.empty() ? "" : " at " + place;
}

// An evaluation ends because somebody asked: counted, and shown from HEDDLE_DEBUG=1 on.
void note_break(DeviceContext& device, const Evaluation& evaluation, const char* why) {
  device.lock().counters.region_breaks++;
  if (debug_level() < 1) return;
  print_error("heddle: evaluation of {} operations on {} ends{}: {}\n", evaluation.captured.order.size(), device.id(),
              at_line(), why);
}

// What decides about a plan beside the graph. Numbers and hashes, so that a key means the same in another process; the
// device, its driver and the library are not part of it.
void append_settings(std::vector<uint64_t>& key, const DeviceContext& device, bool fuse, DynamicShapes mode) {
  key.push_back(static_cast<uint64_t>(mode) << 1 | static_cast<uint64_t>(fuse));
  key.push_back(tuning_state());
  key.push_back(memory_budget(device));
  key.push_back(chains_wanted(device));
  key.push_back(active_passes().bits() << 3 | static_cast<uint64_t>(winograd_wanted()) << 2 |
                static_cast<uint64_t>(tf32_wanted()) << 1 | static_cast<uint64_t>(excess_precision()));
}

// Part of the key, since their plan is another one. None where one of them is held by no Tensor any more.
void note_early(Capture& captured, std::span<const NodePtr> early) {
  for (const NodePtr& node : early) {
    const auto at = std::find(captured.outputs.begin(), captured.outputs.end(), node);
    if (at == captured.outputs.end()) return captured.early.clear();
    captured.early.push_back(static_cast<int>(at - captured.outputs.begin()));
  }
  for (const int output : captured.early) captured.key.push_back(static_cast<uint64_t>(output));
  if (!captured.early.empty()) captured.key.push_back(captured.early.size());
}

std::vector<GraphOutput> run_reference(DeviceContext& device, const Capture& captured) {
  device.lock().counters.host_evaluations += captured.order.size();
  const std::vector<HostArray> values = evaluate_reference(captured.outputs);
  std::vector<GraphOutput> outputs;
  for (const HostArray& value : values) {
    const std::vector<uint8_t> bytes = host_array_to_bytes(value);
    StoragePtr storage = device.allocate(bytes.size());
    if (!bytes.empty()) device.write(*storage, 0, bytes.data(), bytes.size());
    outputs.push_back({std::move(storage), View::dense(value.shape)});
  }
  return outputs;
}

}  // namespace

void give_value(Node& node, StoragePtr storage, const View& view) {
  node.storage = std::move(storage);
  node.view = view;
  if (!node.tracks || node.op == &ops::assign_op) {
    const std::vector<NodePtr> past = std::move(node.inputs);
    node.inputs.clear();
  }
}

Evaluation prepare_evaluation(DeviceContext& device, std::span<const NodePtr> roots, std::span<const NodePtr> early) {
  make_collectives(roots);
  std::shared_ptr<void> lent = lend_for(roots);
  const HostSpan span("capture");
  Evaluation evaluation{&device, capture(roots), nullptr, std::move(lent)};
  note_early(evaluation.captured, early);
  if (evaluation.captured.outputs.empty() || device.caps().target == Target::none) return evaluation;
  const bool fuse = !eager_mode();
  // Whoever forces schedules means those sizes.
  const bool forced = tuning_is_forced() && dynamic_shapes() == DynamicShapes::automatic;
  const DynamicShapes mode = forced ? DynamicShapes::never : dynamic_shapes();
  append_settings(evaluation.captured.key, device, fuse, mode);
  auto locked = device.lock();
  evaluation.graph = graph_cache(device).find(evaluation.captured.key);
  if (evaluation.graph) {
    locked.counters.step_hits++;
  } else {
    const std::vector<uint16_t> varies = graph_cache(device).families().note(evaluation.captured, mode);
    evaluation.graph = CompiledGraph::compile(device, evaluation.captured, fuse, varies);
    graph_cache(device).insert(evaluation.captured.key, evaluation.graph);
    locked.counters.steps_compiled++;
  }
  return evaluation;
}

EvaluationWatch::EvaluationWatch(Callable<void(const Evaluation&)> hear) : hear_(std::move(hear)) {
  watch_of_thread = this;
}

EvaluationWatch::~EvaluationWatch() { watch_of_thread = nullptr; }

void EvaluationWatch::note(const Evaluation& evaluation) {
  if (watch_of_thread != nullptr) watch_of_thread->hear_(evaluation);
}

void run_evaluation(Evaluation& evaluation, const Ready& ready) {
  Capture& captured = evaluation.captured;
  if (captured.outputs.empty()) return;
  EvaluationWatch::note(evaluation);
  std::vector<GraphOutput> outputs = evaluation.graph ? evaluation.graph->run(captured, nullptr, ready).outputs
                                                      : run_reference(*evaluation.device, captured);
  if (number_guard()) check_numbers(evaluation, outputs);
  if (evaluation.graph) {
    for (Node* node : captured.overwritten) {
      node->overwritten = true;
      node->storage.reset();
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    give_value(*captured.outputs[i], std::move(outputs[i].storage), outputs[i].view);
  for (size_t i = 0; ready && !evaluation.graph && i < captured.early.size(); ++i) ready(i, Event());
}

bool anything_pending() { return !pending_nodes().empty(); }

std::vector<std::vector<NodePtr>> take_pending(std::span<const NodePtr> roots) {
  if (Profiler::active()) Profiler::recording(false);
  std::vector<NodePtr> all = held_pending();
  pending_nodes().clear();
  if (!state().at_repeat) state().repeats.clear();
  std::unordered_set<const Node*> known;
  known.reserve(all.size());
  for (const NodePtr& node : all) known.insert(node.get());
  for (const NodePtr& root : roots) {
    if (!root->has_value() && known.insert(root.get()).second) all.push_back(root);
  }
  std::vector<std::vector<NodePtr>> lists;
  while (!all.empty()) {
    DeviceContext* device = all.front()->device;
    const auto rest =
        std::stable_partition(all.begin(), all.end(), [&](const NodePtr& node) { return node->device == device; });
    lists.emplace_back(all.begin(), rest);
    all.erase(all.begin(), rest);
  }
  return lists;
}

void put_back(std::span<const std::vector<NodePtr>> lists) {
  std::vector<std::weak_ptr<Node>>& pending = pending_nodes();
  for (const std::vector<NodePtr>& list : lists) {
    for (const NodePtr& node : list) {
      if (!node->has_value()) pending.push_back(node);
    }
  }
}

namespace {

// What could not be computed stays pending, so that a later evaluation finds it again. When the roots alone do work
// (another held tensor is at fault: too large, or a kernel that no driver takes), nobody who asked for them needs to
// know: the failure is thrown to who looks at that tensor. Unless nothing may be computed twice
// (core/graph/run_once.h). Returns what to throw; null: nothing.
std::exception_ptr after_failure(const std::vector<NodePtr>& list, std::span<const NodePtr> roots,
                                 std::exception_ptr failure) {
  DeviceContext& device = *list.front()->device;
  const bool lost = device.lost();  // then nothing of it will ever be computed: who looks at a value is told
  std::vector<NodePtr> asked;
  for (const NodePtr& root : roots) {
    if (root->device == &device && !root->has_value()) asked.push_back(root);
  }
  if (!lost && !run_once() && !asked.empty() && asked.size() < list.size()) {
    try {
      Evaluation evaluation = prepare_evaluation(device, asked);
      run_evaluation(evaluation);
      failure = nullptr;
    } catch (...) {  // the first failure says more
    }
  } else if (asked.empty() && !roots.empty()) {
    failure = nullptr;  // nothing of this device was asked for
  }
  if (!lost) put_back({&list, 1});
  return failure;
}

}  // namespace

void evaluate(std::span<const NodePtr> roots, const char* why) {
  if (trace::any() && why != nullptr) trace::refuse(fmt::format("{}{}", why, at_line()));
  // A device that fails does not keep the others from their work.
  std::exception_ptr failure;
  for (const std::vector<NodePtr>& list : take_pending(roots)) {
    try {
      Evaluation evaluation = prepare_evaluation(*list.front()->device, list);
      run_evaluation(evaluation);
      if (why != nullptr) note_break(*evaluation.device, evaluation, why);
    } catch (const NumericError&) {  // the values are at fault, and stay so
      if (!failure) failure = std::current_exception();
    } catch (const UserError&) {  // asking again would only fail again; what is held of this list is computed when
                                  // somebody looks
      if (!failure) failure = std::current_exception();
    } catch (...) {
      const std::exception_ptr now = after_failure(list, roots, std::current_exception());
      if (!failure) failure = now;
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void evaluate_pending() {
  if (Trace::current()) return;  // compile() evaluates when the function is done
  evaluate({});
}

namespace {

// All ranks make it, whatever becomes of its result. Over an example of vmap it is not what is computed.
void note_collective(const NodePtr& node) {
  const std::string_view name = node->op->name;
  MeshScope& scope = MeshScope::required(name);
  if (BodyTrace::current() != nullptr) {
    throw AxisError(
        fmt::format("[{}] a collective along {} stands in the body of a scan, cond or while_loop, which has "
                    "none yet: call it before or after",
                    name, scope.names(CollectiveAttrs(node->attrs).axes)));
  }
  if (ExampleScope::active() && depends_on_example(node)) return;
  if (trace::any()) trace::refuse(fmt::format("{} waits for other ranks", name));
  scope.note(node);
}

constexpr const char* unobserved = "a loop was recorded that nobody looks at";

// What the first `count` pending operations give to those behind them. When a loop is recognised many of its iterations
// are pending: computed in pieces as long as those to come, they are the same step as these, where one evaluation of
// all would plan them as one.
void evaluate_before(size_t count) {
  std::vector<std::weak_ptr<Node>>& pending = pending_nodes();
  std::vector<std::weak_ptr<Node>> rest(pending.begin() + static_cast<ptrdiff_t>(count), pending.end());
  pending.resize(count);
  std::unordered_set<const Node*> before;
  for (const std::weak_ptr<Node>& weak : pending) {
    if (const NodePtr node = weak.lock()) before.insert(node.get());
  }
  std::vector<NodePtr> read;
  for (const std::weak_ptr<Node>& weak : rest) {
    const NodePtr node = weak.lock();
    if (!node) continue;
    for (const NodePtr& input : node->inputs) {
      if (!input->has_value() && before.erase(input.get()) > 0) read.push_back(input);
    }
  }
  const auto append = [&] { pending_nodes().insert(pending_nodes().end(), rest.begin(), rest.end()); };
  try {
    evaluate(read, unobserved);
  } catch (...) {
    append();
    throw;
  }
  append();
}

}  // namespace

void note_pending(const NodePtr& node) {
  if (PendingPause::active()) return;
  if (communicates(*node->op)) note_collective(node);
  if (BodyTrace* body = BodyTrace::current()) return body->note(node);
  if (ExampleScope::active()) return;
  const NodePtr root[] = {node};
  if (eager_mode() && node->op == &ops::full_op) return;  // capture() says why
  if (eager_mode()) return evaluate(root, trace::any() ? "operations run one by one (EagerScope)" : nullptr);
  std::vector<std::weak_ptr<Node>>& pending = pending_nodes();
  if (pending.empty() && Profiler::active()) Profiler::recording(true);
  pending.push_back(node);
  if (pending.size() > (Trace::current() ? max_traced : max_pending)) return evaluate(root, "too much was pending");
  ThreadState& thread = state();
  if (Trace::current() != nullptr || !thread.repeats.note(*node))
    return;  // compile() evaluates when the function is done
  thread.at_repeat = true;
  try {
    const size_t piece = thread.repeats.piece();
    for (size_t left = pending.size() / piece; left > 1; --left) {
      evaluate_before(pending.size() - (left - 1) * piece);
    }
    evaluate(root, unobserved);
  } catch (...) {
    thread.at_repeat = false;
    throw;
  }
  thread.at_repeat = false;
}

}  // namespace heddle
