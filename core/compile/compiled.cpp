#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <mutex>
#include <optional>

#include "heddle/core/base/host_span.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/compile/compiled_call.h"
#include "heddle/core/compile/compiled_call_builder.h"
#include "heddle/core/compile/hand_over.h"
#include "heddle/core/compile/ordered_call.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/lender.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/number_guard.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/memory/memory_budget.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/run/chains.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/debug.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle::detail {
namespace {

constexpr size_t max_programs = 64;
constexpr int first_check = 8;

struct Variant {
  std::vector<uint64_t> key;
  std::unique_ptr<CompiledCall> program;
  std::shared_ptr<const void> prototype;
  uint64_t epoch = 0;
  bool confirmed = false;  // two calls did the same
  int replays = 0;         // since f last ran
  int next_check = first_check;
  std::vector<std::pair<size_t, build::IndexBound>> bounds;  // by argument

  bool indices_fit(const std::vector<const Tensor*>& arguments) const {
    return std::all_of(bounds.begin(), bounds.end(),
                       [&](const auto& bound) { return build::fits_bound(*arguments[bound.first], bound.second); });
  }
};

// Which arguments served as indices, and how.
std::vector<std::pair<size_t, build::IndexBound>> bounds_of(const std::vector<const Tensor*>& arguments) {
  std::vector<std::pair<size_t, build::IndexBound>> bounds;
  for (build::IndexBound& bound : build::take_index_bounds()) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i]->impl() || arguments[i]->impl()->node->storage != bound.storage) continue;
      bound.storage.reset();
      bounds.emplace_back(i, bound);
      break;
    }
  }
  return bounds;
}

}  // namespace

struct CompiledFunction::State {
  CompileOptions options;
  mutable std::mutex mutex;
  std::list<Variant> variants;  // latest use first
  CompileStats stats;
  std::shared_ptr<const CompiledGraph> latest;  // of the calls that ran f

  // A confirmed recorded graph for this call, or the end.
  std::list<Variant>::iterator find(const std::vector<uint64_t>& key, const std::vector<const Tensor*>& arguments) {
    return std::find_if(variants.begin(), variants.end(),
                        [&](Variant& v) { return v.confirmed && v.key == key && v.program->fits(arguments); });
  }

  bool may_replay(const Variant& v) const {
    return v.epoch == trace::host_epoch() && v.replays < std::min(v.next_check, options.check_every - 1);
  }

  void replay(Variant& v, Invocation& invocation, const Made& made) {
    const HostSpan span("replay");
    invocation.restore(v.prototype.get());
    v.program->run(invocation.results(), options.ready, made);
    ++v.replays;
    ++stats.replayed;
  }

  // Runs f as a plain loop would, and learns from it. `expected`: the graph that a replay would have run, or the end.
  // With `made` results are handed over.
  void record(Invocation& invocation, std::vector<uint64_t> key, std::list<Variant>::iterator expected,
              const Made& made) {
    build::take_index_bounds();
    Trace trace;
    invocation.run();
    trace.end();
    std::vector<std::pair<size_t, build::IndexBound>> bounds = bounds_of(invocation.arguments);
    if (number_guard()) trace.refuse("numbers are checked");
    if (index_guard()) trace.refuse("indices are checked");
    ++stats.recorded;
    const std::vector<Tensor*> results = invocation.results();
    const std::vector<const Tensor*> handles(results.begin(), results.end());
    if (invocation.changed_itself()) trace.refuse("it changes numbers of its own closure");
    if (made) {
      std::unique_ptr<CompiledCall> program = evaluate_in_turn(trace, invocation.arguments, results, made);
      detach(results);
      return finish_record(trace, std::move(program), std::move(key), invocation, std::move(bounds), expected);
    }
    std::vector<NodePtr> roots;
    for (const Tensor* result : results) {
      if (result->impl()) roots.push_back(result->impl()->node);
    }
    const std::vector<std::vector<NodePtr>> lists = take_pending(roots);
    std::unique_ptr<CompiledCall> program = evaluate_lists(lists, trace, invocation.arguments, handles);
    if (results.empty() && lists.empty() && !(program && program->has_effects())) {
      throw ValueError(
          fmt::format("[compile] {} returns no tensor and changes none: there is nothing to compute; return a result, "
                      "or assign() to a tensor",
                      options.name));
    }
    detach(results);
    finish_record(trace, std::move(program), std::move(key), invocation, std::move(bounds), expected);
  }

  void finish_record(const Trace& trace, std::unique_ptr<CompiledCall> program, std::vector<uint64_t> key,
                     Invocation& invocation, std::vector<std::pair<size_t, build::IndexBound>> bounds,
                     std::list<Variant>::iterator expected) {
    stats.refusal = trace.refusal();
    if (!program && debug_level() >= 1)
      print_error("heddle: {} runs at every call: {}\n", options.name, trace.refusal());
    learn(std::move(program), std::move(key), invocation, std::move(bounds), expected);
  }

  // Hands results over while they are made; the program of it, or null with a refusal.
  std::unique_ptr<CompiledCall> evaluate_in_turn(Trace& trace, const std::vector<const Tensor*>& arguments,
                                                 const std::vector<Tensor*>& results, const Made& made) {
    OrderedCall call(trace, arguments, results);
    call.run(made);
    if (call.latest()) latest = call.latest();
    return call.finish();
  }

  // Computes everything; the program of it, or null with a refusal.
  std::unique_ptr<CompiledCall> evaluate_lists(const std::vector<std::vector<NodePtr>>& lists, Trace& trace,
                                               const std::vector<const Tensor*>& arguments,
                                               const std::vector<const Tensor*>& results) {
    if (lists.size() > 1) trace.refuse("it computes on several devices");
    const RepeatedScope repeated;
    std::unique_ptr<CompiledCall> program;
    size_t done = 0;
    try {
      if (lists.empty()) program = make_program(trace, Evaluation{}, arguments, results);
      for (; done < lists.size(); ++done) {
        Evaluation evaluation = prepare_evaluation(*lists[done].front()->device, lists[done],
                                                   early_of(trace, *lists[done].front()->device));
        if (!evaluation.graph) trace.refuse(fmt::format("{} takes no kernels", evaluation.device->id()));
        program = make_program(trace, evaluation, arguments, results);
        run_evaluation(evaluation, options.ready);
        if (evaluation.graph) latest = evaluation.graph;
      }
    } catch (...) {
      put_back(std::span(lists).subspan(done));
      throw;
    }
    return program;
  }

  // What is wanted early on that device; on several nothing is, since one graph's numbers are told.
  std::vector<NodePtr> early_of(const Trace& trace, const DeviceContext& device) const {
    const auto here = [&](const NodePtr& node) { return node->device == &device && !node->has_value(); };
    if (!options.ready || !std::all_of(trace.early.begin(), trace.early.end(), here)) return {};
    return trace.early;
  }

  static std::unique_ptr<CompiledCall> make_program(Trace& trace, const Evaluation& evaluation,
                                                    const std::vector<const Tensor*>& arguments,
                                                    const std::vector<const Tensor*>& results) {
    if (!trace.refusal().empty()) return nullptr;
    try {
      return CompiledCall::Builder::build(trace, evaluation, arguments, results);
    } catch (const NotReplayable& why) {
      trace.refuse(why.why);
      return nullptr;
    }
  }

  // Results have no history, recorded or replayed.
  static void detach(const std::vector<Tensor*>& results) {
    for (Tensor* result : results) {
      if (result->impl() && result->node()->tracks && !result->impl()->requires_grad) *result = result->detach();
    }
  }

  void learn(std::unique_ptr<CompiledCall> program, std::vector<uint64_t> key, Invocation& invocation,
             std::vector<std::pair<size_t, build::IndexBound>> bounds, std::list<Variant>::iterator expected) {
    const auto same = !program ? variants.end() : std::find_if(variants.begin(), variants.end(), [&](const Variant& v) {
      return v.key == key && v.program->same_as(*program);
    });
    if (expected != variants.end() && same != expected) {
      if (expected->epoch == trace::host_epoch() && expected->replays > 0)
        report_stale(*expected, program ? expected->program->difference(*program) : "what can be replayed");
      variants.erase(expected);
    }
    if (!program) return;
    if (same != variants.end()) {
      same->program->renew(*program);
      if (!same->confirmed)
        same->program->watch();
      else if (same->replays > 0)
        same->next_check = std::min(2 * same->next_check, std::max(options.check_every, 1));
      same->confirmed = true;
      same->replays = 0;
      same->epoch = trace::host_epoch();
      same->bounds = std::move(bounds);
      variants.splice(variants.begin(), variants, same);
      return;
    }
    if (variants.size() >= max_programs) variants.pop_back();
    variants.push_front({std::move(key), std::move(program), invocation.prototype(), trace::host_epoch(), false, 0,
                         first_check, std::move(bounds)});
  }

  void report_stale(const Variant& v, std::string_view what) {
    ++stats.stale;
    print_error(
        "heddle: {} does something else than {} calls ago ({} differ), since when it was replayed: a number, flag or "
        "pointer of its closure has changed. "
        "Hold it in Watched<T>, pass it as an argument, or set CompileOptions::check_every to 1\n",
        options.name, v.replays, what);
  }
};

CompiledFunction::CompiledFunction(CompileOptions options) : state_(std::make_unique<State>()) {
  if (options.check_every < 1)
    throw ValueError(fmt::format("[compile] check_every is {}; it must be at least 1", options.check_every));
  state_->options = std::move(options);
}
CompiledFunction::~CompiledFunction() = default;

CompileStats CompiledFunction::stats() const {
  const std::lock_guard guard(state_->mutex);
  CompileStats stats = state_->stats;
  stats.programs = state_->variants.size();
  return stats;
}

MemoryReport CompiledFunction::memory() const {
  const std::lock_guard guard(state_->mutex);
  if (!state_->latest)
    throw ValueError(
        fmt::format("[memory] {} has not run a step that has a plan; call it first", state_->options.name));
  return state_->latest->memory();
}

void CompiledFunction::call(Invocation& invocation) {
  const Made made = HandOverScope::take();
  const auto tracks = [](const Tensor* t) { return t->impl() && t->impl()->node->tracks; };
  const bool differentiable =
      grad_mode() && std::any_of(invocation.arguments.begin(), invocation.arguments.end(), tracks);
  // In a program of ranks: a replay would give values without types, and ranks of one process would wait for each other
  // under the lock.
  // Nor of parameters that come and go, unless the call is cut where they do.
  const bool borrows = LenderScope::current() != nullptr && !made;
  const bool among_ranks = MeshScope::current() != nullptr || borrows;
  if (made && Trace::current() != nullptr)
    throw ValueError(
        fmt::format("[compile] {} hands its results over while they are made: not within another compiled function",
                    state_->options.name));
  if (Trace::current() != nullptr || TransformScope::active() || among_ranks || eager_mode() || differentiable) {
    invocation.run();
    if (made) hand_over(invocation.results(), made);
    return;
  }
  if (anything_pending()) evaluate_pending();
  for (const Tensor* t : invocation.arguments) {
    if (t->impl() && !t->impl()->node->has_value()) evaluate({&t->impl()->node, 1});
  }
  State& state = *state_;
  const std::lock_guard guard(state.mutex);
  std::optional<MemoryBudget> budget;
  if (state.options.memory_budget > 0) budget.emplace(state.options.memory_budget);
  std::vector<uint64_t> key = invocation.key;
  key.push_back(grad_mode());
  key.push_back(static_cast<uint64_t>(AutocastScope::active().value_or(DType::f32)));
  key.push_back(tuning_state());
  key.push_back(made != nullptr);
  key.push_back(MemoryBudget::scope().value_or(~uint64_t{0}));  // a device's own counts as state of the host
  const bool checked = number_guard() || index_guard();
  const auto found = state.find(key, invocation.arguments);
  const bool indexed = index_guard_mode() == IndexGuard::off || found == state.variants.end() ||
                       found->indices_fit(invocation.arguments);
  if (found != state.variants.end() && !checked && indexed && state.may_replay(*found)) {
    state.variants.splice(state.variants.begin(), state.variants, found);
    state.replay(*found, invocation, made);
  } else {
    if (found != state.variants.end()) found->program->release();
    state.record(invocation, std::move(key),
                 checked ? state.variants.end() : found,  // a call that is checked says nothing of the recorded graph
                 made);
  }
}

}  // namespace heddle::detail

namespace heddle {

void wanted_early(const Tensor& assigned) {
  const NodePtr& node = assigned.node();
  if (node->op != &ops::assign_op) throw ValueError("[wanted_early] nothing was assigned to the tensor");
  if (Trace* const trace = Trace::current()) trace->early.push_back(node);
}

}  // namespace heddle
