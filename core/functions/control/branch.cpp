#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/build.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/watched.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

void check_predicate(const Tensor& predicate, const char* who, const char* name) {
  if (!predicate.defined()) throw ValueError(fmt::format("[{}] the {} is undefined", who, name));
  if (predicate.dtype() != DType::boolean) {
    throw DTypeError(fmt::format("[{}] the {} is {}; it must be a bool: compare it with something", who, name,
                                 build::show(predicate)));
  }
  if (predicate.numel() != 1)
    throw ShapeError(
        fmt::format("[{}] the {} has shape {}; it must have one element: reduce it (max for any, min for all)", who,
                    name, predicate.shape().str()));
}

Tensor everywhere(const Tensor& predicate, const Shape& shape) {
  return build::broadcast(reshape(predicate, Shape{}), shape);
}

struct Traced {
  std::shared_ptr<const LoopBody> body;
  std::vector<NodePtr> captured;
  size_t results = 0;
  std::vector<Tensor*> checks;  // watched inside; their values are the body's last results
};

Traced trace_branch(const Branch& branch, const std::vector<Tensor>& operands, DeviceContext& device,
                    const char* name) {
  if (!branch) throw ValueError(fmt::format("[cond] the {} branch is an empty function", name));
  const WatchedScope watched;
  BodyTrace trace(device, 0);
  std::vector<Tensor> args;
  for (const Tensor& t : operands) args.push_back(trace.argument(t.shape(), t.dtype()));
  const std::vector<Tensor> given = branch(args);
  std::vector<NodePtr> results;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) throw ValueError(fmt::format("[cond] result {} of the {} branch is undefined", i, name));
    results.push_back(given[i].node());
  }
  std::vector<Tensor*> checks = watched.values();
  for (const Tensor* check : checks) results.push_back(check->node());
  BodyTrace::Closed closed = trace.close(results, false);  // what a branch computes is behind its gates
  return {closed.body, closed.captured, given.size(), std::move(checks)};
}

void check_alike(const Traced& a, const Traced& b) {
  if (a.results != b.results)
    throw ValueError(
        fmt::format("[cond] the branches give {} and {} tensors; both give as many", a.results, b.results));
  for (size_t i = 0; i < a.results; ++i) {
    const Node &x = *a.body->results[i], &y = *b.body->results[i];
    if (x.shape != y.shape)
      throw ShapeError(fmt::format("[cond] result {} of the branches is {} and {}; both have one shape", i,
                                   x.shape.str(), y.shape.str()));
    if (x.dtype != y.dtype)
      throw DTypeError(fmt::format("[cond] result {} of the branches is {} and {}; both have one dtype: cast one", i,
                                   name_of(x.dtype), name_of(y.dtype)));
  }
}

// The value of x. Its cotangent arrives only where the branch is taken: an infinity from the other branch, times the 0
// that it gets, would be a NaN.
Tensor gate(const Tensor& x, const Tensor& predicate, bool branch) {
  if (!is_float(x.dtype()) || !x.node()->tracks || !grad_mode()) return x;
  const Tensor here = everywhere(predicate, x.shape()), still = stop_gradient(x);
  return branch ? where(here, x, still) : where(here, still, x);
}

std::vector<Tensor> run_branch(const Traced& traced, const std::vector<Tensor>& operands, const Tensor& predicate,
                               bool branch) {
  std::vector<NodePtr> args;
  for (const Tensor& t : operands) args.push_back(gate(t, predicate, branch).node());
  for (const NodePtr& node : traced.captured) args.push_back(gate(Tensor(node), predicate, branch).node());
  const std::vector<NodePtr> nodes = call_body(*traced.body, args);
  std::vector<Tensor> results;
  for (const NodePtr& result : traced.body->results)
    results.emplace_back(nodes[static_cast<size_t>(traced.body->index.at(result.get()))]);
  for (size_t i = 0; i < traced.checks.size(); ++i) {
    const Tensor& value = results[traced.results + i];
    const Tensor here = everywhere(predicate, value.shape()), untaken = full_like(value, -1);
    *traced.checks[i] = branch ? where(here, value, untaken) : where(here, untaken, value);
  }
  results.resize(traced.results);
  return results;
}

std::vector<Tensor> checked_body(const WhileBody& body, const std::vector<Tensor>& carry) {
  const std::vector<Tensor> next = body(carry);
  if (next.size() != carry.size()) {
    throw ValueError(
        fmt::format("[while_loop] the body gives {} carries, but the loop began with {}; return one for each",
                    next.size(), carry.size()));
  }
  for (size_t c = 0; c < next.size(); ++c) {
    if (!next[c].defined())
      throw ValueError(fmt::format("[while_loop] the body gives an undefined tensor as carry {}", c));
    if (next[c].shape() != carry[c].shape()) {
      throw ShapeError(fmt::format("[while_loop] the body makes carry {} {} from {}; a carry keeps its shape", c,
                                   next[c].shape().str(), carry[c].shape().str()));
    }
    if (next[c].dtype() != carry[c].dtype()) {
      throw DTypeError(fmt::format("[while_loop] the body makes carry {} {} from {}; a carry keeps its dtype: cast it",
                                   c, name_of(next[c].dtype()), name_of(carry[c].dtype())));
    }
  }
  return next;
}

Tensor checked_condition(const WhileCondition& condition, const std::vector<Tensor>& carry) {
  const Tensor active = condition(carry);
  check_predicate(active, "while_loop", "condition");
  return reshape(active, Shape{});
}

// Carries, whether the loop goes on, how often the body ran.
struct WhileState {
  std::vector<Tensor> carry;
  Tensor active, iterations;
};

// So many iterations, of which those after the end change nothing.
WhileState masked(const WhileCondition& condition, const WhileBody& body, WhileState state, int64_t length) {
  std::vector<Tensor> init = state.carry;
  init.push_back(state.active);
  init.push_back(state.iterations);
  Scanned done = scan(
      [&](const std::vector<Tensor>& all, const std::vector<Tensor>&) {
        const std::vector<Tensor> carry(all.begin(), all.end() - 2);
        const Tensor &active = all[carry.size()], &iterations = all[carry.size() + 1];
        std::vector<Tensor> next = cond(
            active, [&](const std::vector<Tensor>& now) { return checked_body(body, now); },
            [](const std::vector<Tensor>& now) { return now; }, carry);
        const Tensor goes_on = active && checked_condition(condition, next);
        next.push_back(goes_on);
        next.push_back(iterations + cast(active, DType::i32));
        return Scanned{next, {}};
      },
      init, {}, {length, false, false});
  state.iterations = done.carry.back();
  done.carry.pop_back();
  state.active = done.carry.back();
  done.carry.pop_back();
  state.carry = std::move(done.carry);
  return state;
}

// Values that a gradient would be wrong of.
void end_history(std::vector<Tensor>& carry, const std::vector<Tensor>& begun) {
  std::vector<NodePtr> tracked;
  for (const Tensor& t : begun) {
    if (t.node()->tracks) tracked.push_back(t.node());
  }
  if (tracked.empty() || !grad_mode()) return;
  for (Tensor& t : carry) {
    if (!is_float(t.dtype())) continue;
    std::vector<NodePtr> inputs = tracked;
    inputs.push_back(t.node());
    t = Tensor(make_node(ops::while_result_op, std::move(inputs), {}, t.shape(), t.dtype()));
  }
}

}  // namespace

std::vector<Tensor> cond(bool predicate, const Branch& then_branch, const Branch& else_branch,
                         const std::vector<Tensor>& operands, Caller caller) {
  const CallerScope scope(caller);
  const Branch& taken = predicate ? then_branch : else_branch;
  if (!taken) throw ValueError(fmt::format("[cond] the {} branch is an empty function", predicate ? "then" : "else"));
  return taken(operands);
}

std::vector<Tensor> cond(const Tensor& predicate, const Branch& then_branch, const Branch& else_branch,
                         const std::vector<Tensor>& operands, Caller caller) {
  const CallerScope scope(caller);
  check_predicate(predicate, "cond", "predicate");
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].defined()) throw ValueError(fmt::format("[cond] operand {} is undefined", i));
  }
  if (predicate.node()->op == &ops::full_op)
    return cond(predicate.node()->attrs.real != 0, then_branch, else_branch, operands);
  DeviceContext& device = predicate.device();
  const WatchedScope watched;
  const Traced taken = trace_branch(then_branch, operands, device, "then"),
               other = trace_branch(else_branch, operands, device, "else");
  check_alike(taken, other);
  const std::vector<Tensor> a = run_branch(taken, operands, predicate, true),
                            b = run_branch(other, operands, predicate, false);
  std::vector<Tensor> results;
  for (size_t i = 0; i < a.size(); ++i) results.push_back(where(everywhere(predicate, a[i].shape()), a[i], b[i]));
  return results;
}

WhileResult while_loop(const WhileCondition& condition, const WhileBody& body, const std::vector<Tensor>& init,
                       const WhileOptions& options, Caller caller) {
  const CallerScope scope(caller);
  if (!condition || !body) throw ValueError("[while_loop] the condition or the body is an empty function");
  if (init.empty()) throw ValueError("[while_loop] there are no carries: a condition of nothing never changes");
  for (size_t c = 0; c < init.size(); ++c) {
    if (!init[c].defined()) throw ValueError(fmt::format("[while_loop] carry {} is undefined", c));
  }
  if (options.max_iterations && (*options.max_iterations < 0 || *options.max_iterations > INT32_MAX)) {
    throw ValueError(
        fmt::format("[while_loop] max_iterations is {}; it must be in [0, 2^31)", *options.max_iterations));
  }
  if (options.chunk < 1 || options.chunk > INT32_MAX)
    throw ValueError(fmt::format("[while_loop] the chunk is {}; it must be in [1, 2^31)", options.chunk));
  WhileState state{init, checked_condition(condition, init), zeros({}, DType::i32, &init[0].device())};
  if (options.max_iterations) {
    if (*options.max_iterations > 0) state = masked(condition, body, std::move(state), *options.max_iterations);
    return {state.carry, state.iterations};
  }
  std::vector<Tensor> begun;
  while (state.active.item() != 0) {
    if (begun.empty()) {
      state = masked(condition, body, std::move(state), options.chunk);
      begun = state.carry;
      continue;
    }
    const NoGradScope no_gradients;
    state = masked(condition, body, std::move(state), options.chunk);
  }
  end_history(state.carry, begun);
  return {state.carry, state.iterations};
}

}  // namespace heddle
