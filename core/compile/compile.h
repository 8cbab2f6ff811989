// compile(f): a callable that does what f does, but from its third call on submits the recorded graph instead of
// running f.
//
//   auto step = compile([&](const Tensor& x, const Tensor& y) {
//     const Tensor loss = cross_entropy(model(x), y);
//     optimizer.zero_grad();  backward(loss);  optimizer.step();
//     return loss;
//   });
//   for (...) losses.push_back(step(x, y));
//
// Arguments are Tensors, vectors of them, and numbers; results are Tensors, or vectors, arrays, pairs and tuples of
// them, or nothing when f changes state (assigns, optimizer steps). Results carry no gradient history: take gradients
// inside. With an argument that tracks gradients, f simply runs. Inside another compiled function, and under
// EagerScope, f simply runs as well.
//
// Recorded graphs are kept per number and structure of the arguments, values of numbers, shapes, dtypes, devices,
// layouts in memory and requires_grad flags, grad mode and tuning; the latest 64. f runs twice for each: only what two
// calls did alike is replayed. What is looked at before every replay, so that it is never stale:
//   - every Tensor that f read through a handle of its closure, a module or an optimizer is read again through that
//   handle: rebinding it
//     (w = other), assign(), optimizer steps outside, load_state_dict() are seen; if its shape, dtype, device, layout,
//     flags or hooks, or which handles share a tensor, have changed, or the handle is gone, f runs again;
//   - what f left behind goes where f put it: assigned values, gradients, rebound handles. What it keeps elsewhere (a
//   list that grows) makes f run
//     at every call;
//   - random keys, learning rates and step counts are drawn again in their order: Generator, Optimizer,
//   Tensor::host_scalar(function);
//   - state of the host that the library owns (Module::train(), options of an optimizer, a Generator's end, the default
//   device), and numbers held in a
//     Watched<T>: after any change f runs again, and what it does is compared;
//   - looking at a value inside, numbers put in through host_scalar(float), uploads, several devices: f runs at every
//   call.
// What C++ does not show: a plain number, flag or pointer of the closure that f reads. Such a change is met by the two
// calls in the beginning, by f changing its own captures, or at the latest when f runs again for comparison, after 8,
// 16, 32 and then every 64 replays (CompileOptions::check_every): then the recorded graph is thrown away and a line on
// stderr says so. Hold such numbers in Watched<T>, pass them as arguments, or say check_every = 1. f must not count on
// side effects other than on tensors: it is not called in a replay.
//
// Errors: ValueError when f returns no tensor and changes none. An exception of f leaves everything as in a plain loop.
// Thread safety: calls of one compiled function from several threads wait for each other. f may use what a plain loop
// could.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/base/owned.h"
#include "heddle/core/device/event.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/memory/memory_report.h"

namespace heddle {

struct CompileOptions {
  std::string name = "compiled function";  // in log lines
  int check_every = 64;        // replays after which f runs again for comparison at the latest; 1: f runs at every call
  uint64_t memory_budget = 0;  // bytes (core/memory/memory_budget.h); 0: what counts for the calling thread
  // Called by each call of the function for the number of each wanted_early(), once the submission that ends it has
  // been made; the device may be computing it. Not where f simply runs.
  Callable<void(size_t early, const Event& end)> ready = {};
};

// In a compiled function: the value that was assigned to that tensor is computed before all that it does not need, and
// before what is wanted by later calls; the graph becomes several submissions, so that `ready` may have it sent away
// while the device goes on. Results are the same bits. Nothing happens without CompileOptions::ready, and where f
// simply runs. Errors: ValueError for a tensor to which nothing was assigned.
void wanted_early(const Tensor& assigned);

struct CompileStats {
  uint64_t recorded = 0;  // calls that ran f
  uint64_t replayed = 0;  // calls that did not
  uint64_t stale = 0;     // recorded graphs that a comparison threw away though nothing watched had changed
  size_t programs = 0;    // recorded graphs kept
  std::string refusal;    // why the latest call of f cannot be replayed; empty when it can
};

namespace detail {

// One call, without its types.
struct Invocation {
  std::vector<const Tensor*> arguments;
  std::vector<uint64_t> key;  // structure of the arguments and values of numbers
  virtual ~Invocation() = default;
  virtual void run() = 0;
  virtual bool changed_itself() const = 0;              // f changed its own bytes in run()
  virtual std::vector<Tensor*> results() = 0;           // of the latest run() or restore()
  virtual std::shared_ptr<const void> prototype() = 0;  // the results' structure, without tensors
  virtual void restore(const void* prototype) = 0;
};

class CompiledFunction {
 public:
  explicit CompiledFunction(CompileOptions options);
  ~CompiledFunction();
  void call(Invocation& invocation);
  CompileStats stats() const;
  MemoryReport memory() const;

 private:
  struct State;
  Owned<State> state_;
};

// Calls visit(tensor) for each Tensor of a value, number(bits) for each number and size.
template <class T>
struct Flat {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>,
                "compile() takes and returns Tensors, vectors, arrays, pairs and tuples of them, and numbers");
  template <class Value, class Visit, class Number>
  static void walk(Value& value, const Visit&, const Number& number) {
    if constexpr (std::is_enum_v<T>)
      number(static_cast<uint64_t>(value));
    else
      number(std::bit_cast<uint64_t>(static_cast<double>(value)));
    if constexpr (std::is_integral_v<T>) number(static_cast<uint64_t>(value));
  }
};
template <>
struct Flat<Tensor> {
  template <class Value, class Visit, class Number>
  static void walk(Value& value, const Visit& visit, const Number&) {
    visit(value);
  }
};
template <class T>
struct Flat<std::vector<T>> {
  template <class Value, class Visit, class Number>
  static void walk(Value& value, const Visit& visit, const Number& number) {
    number(value.size());
    for (auto& part : value) Flat<T>::walk(part, visit, number);
  }
};
template <class T, size_t N>
struct Flat<std::array<T, N>> {
  template <class Value, class Visit, class Number>
  static void walk(Value& value, const Visit& visit, const Number& number) {
    for (auto& part : value) Flat<T>::walk(part, visit, number);
  }
};
template <class... Ts>
struct Flat<std::tuple<Ts...>> {
  template <class Value, class Visit, class Number>
  static void walk(Value& value, const Visit& visit, const Number& number) {
    std::apply([&](auto&... parts) { (Flat<Ts>::walk(parts, visit, number), ...); }, value);
  }
};
template <class A, class B>
struct Flat<std::pair<A, B>> {
  template <class Value, class Visit, class Number>
  static void walk(Value& value, const Visit& visit, const Number& number) {
    Flat<A>::walk(value.first, visit, number);
    Flat<B>::walk(value.second, visit, number);
  }
};

template <class F, class R, class... Args>
struct InvocationOf final : Invocation {
  static constexpr bool returns = !std::is_void_v<R>;
  struct Nothing {};
  using Result = std::conditional_t<returns, R, Nothing>;

  InvocationOf(F& function, const Args&... given) : f(function), copies(given...) {
    Flat<std::tuple<Args...>>::walk(
        copies, [this](const Tensor& t) { arguments.push_back(&t); }, [this](uint64_t bits) { key.push_back(bits); });
  }
  void run() override {
    std::array<unsigned char, sizeof(F)> before;
    std::memcpy(before.data(), static_cast<const void*>(&f), sizeof(F));
    const std::tuple<Args...>& given = copies;
    if constexpr (returns)
      result.emplace(std::apply(f, given));
    else
      std::apply(f, given);
    changed = !std::is_empty_v<F> && std::memcmp(before.data(), static_cast<const void*>(&f), sizeof(F)) != 0;
  }
  bool changed_itself() const override { return changed; }
  std::vector<Tensor*> results() override {
    std::vector<Tensor*> all;
    if constexpr (returns) collect(*result, all);
    return all;
  }
  std::shared_ptr<const void> prototype() override {
    if constexpr (returns) {
      auto copy = std::make_shared<Result>(*result);
      std::vector<Tensor*> all;
      collect(*copy, all);
      for (Tensor* t : all) *t = Tensor();
      return copy;
    } else {
      return nullptr;
    }
  }
  void restore(const void* prototype) override {
    if constexpr (returns) result.emplace(*static_cast<const Result*>(prototype));
  }
  static void collect(Result& value, std::vector<Tensor*>& into) {
    Flat<Result>::walk(
        value, [&](Tensor& t) { into.push_back(&t); }, [](uint64_t) {});
  }

  F& f;
  std::tuple<Args...> copies;  // handles of this call: what f reads through them is an argument
  std::optional<Result> result;
  bool changed = false;
};

}  // namespace detail

// What compile() gives. Copies share the function and its recorded graphs.
template <class F>
class Compiled {
 public:
  Compiled(F f, CompileOptions options) : shared_(std::make_shared<Shared>(std::move(f), std::move(options))) {}

  template <class... Args>
  auto operator()(const Args&... args) const {
    using R = std::invoke_result_t<F&, const Args&...>;
    static_assert(!std::is_reference_v<R>, "a compiled function returns by value");
    detail::InvocationOf<F, R, Args...> invocation(shared_->f, args...);
    shared_->function.call(invocation);
    if constexpr (!std::is_void_v<R>) return std::move(*invocation.result);
  }
  CompileStats stats() const { return shared_->function.stats(); }
  // What the graph that ran last (recorded; on the last of several devices) needs, for what, and what its device held
  // meanwhile. Before the first call, record the work and ask plan_pending() (core/compile/dump.h). ValueError when
  // nothing has run that has a plan.
  MemoryReport memory() const { return shared_->function.memory(); }

 private:
  struct Shared {
    Shared(F traced, CompileOptions options) : f(std::move(traced)), function(std::move(options)) {}
    F f;
    detail::CompiledFunction function;
  };
  std::shared_ptr<Shared> shared_;
};

template <class F>
Compiled<std::decay_t<F>> compile(F&& f, CompileOptions options = {}) {
  return Compiled<std::decay_t<F>>(std::forward<F>(f), std::move(options));
}

}  // namespace heddle
