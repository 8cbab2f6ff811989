// Trace: what a function that compile() runs reads and changes of the tensors that were there before it.
//
// Purpose: compile() (core/compile/compile.h) may only skip a function if it knows all that the recorded step depends
// on and all that it leaves behind. While a trace is active on a thread, Tensor reports every handle that is read or
// written, TensorImpl every state that is made, and whoever puts a number of the host into the graph reports where the
// next one comes from. Invariants: a handle that was destroyed meanwhile is forgotten; `before` is what a handle
// referred to when it was first touched; states keep what they name alive. Thread safety: a trace belongs to its
// thread. What it hears of handles comes from core/graph/trace_handles.h, which knows tensors; here they are addresses.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "heddle/core/base/host_epoch.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/trace_hooks.h"

namespace heddle {

class Tensor;
struct TensorImpl;

class Trace {
 public:
  struct Handle {
    size_t order = 0;                    // of the first touch
    std::shared_ptr<TensorImpl> before;  // null: it was undefined
    bool fresh = false;                  // made meanwhile, or around a state made meanwhile: `before` says nothing
  };
  // A TensorImpl that was there before, as it was when first touched.
  struct State {
    std::shared_ptr<TensorImpl> impl;
    NodePtr node;
    bool requires_grad = false;
    bool tracks = false;
    size_t hooks = 0;
  };
  // What a replay does on the host instead of running the function: an effect, or the next value of a host leaf.
  struct Action {
    std::function<void()> effect;
    std::function<HostValue()> source;
  };

  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  // The active trace of this thread, or null.
  static Trace* current();

  // The function cannot be skipped; the first reason is kept.
  void refuse(std::string why);
  const std::string& refusal() const { return refusal_; }

  std::unordered_map<const Tensor*, Handle> handles;
  std::vector<State> states;                               // in order of first touch
  std::unordered_map<const TensorImpl*, size_t> state_of;  // index into states
  std::unordered_set<const TensorImpl*> made;              // states made meanwhile
  std::vector<Action> actions;
  std::unordered_map<const Node*, size_t> action_of;  // host leaf -> index of its source
  std::unordered_map<const Node*, NodePtr> derived;   // leaf made over the value of another node
  std::vector<NodePtr> early;                         // assigned values that are wanted first, in that order

  // The function is done; what was learnt stays.
  void end();

  // A handle is read or written, which has that state. True when the state was there before and is met for the first
  // time: `states` is to get it.
  bool touch(const Tensor* handle, const std::shared_ptr<TensorImpl>& impl);
  void forget(const Tensor* handle) { handles.erase(handle); }

 private:
  Trace* before_;
  bool ended_ = false;
  size_t touches_ = 0;
  std::string refusal_;
};

namespace trace {

void made(const TensorImpl& impl);
void unmade(const TensorImpl& impl) noexcept;
void derived(const NodePtr& leaf, const NodePtr& from);

// Before an effect on the host that every call of the function has (a step count): a replay runs it again.
void effect(std::function<void()> repeat);
// `leaf` is a host leaf whose value a replay asks for anew.
void source(const NodePtr& leaf, std::function<HostValue()> next);
// What happens cannot be repeated without running the function.
void refuse(const std::string& why);

}  // namespace trace

}  // namespace heddle
