// CompiledCall::Builder: from a trace and what the call recorded to what can be said of the call without the function.
//
// Purpose: finds of each tensor state and leaf by which handle it is found again, and refuses what could not be
// repeated. Thread safety: none.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "heddle/core/compile/compiled_call.h"

namespace heddle {

// Thrown inside: why a traced call cannot be repeated.
struct NotReplayable {
  std::string why;
};

class CompiledCall::Builder {
 public:
  // `arguments` and `results` are the caller's handles, in order. The trace has ended, the evaluation was prepared and
  // not run. Throws NotReplayable.
  static std::unique_ptr<CompiledCall> build(const Trace& trace, const Evaluation& evaluation,
                                             const std::vector<const Tensor*>& arguments,
                                             const std::vector<const Tensor*>& results);

  // Of a call of several evaluations. `handed`: results that are handed over between them. Each function throws
  // NotReplayable, behind which there is no call.
  Builder(const Trace& trace, const std::vector<const Tensor*>& arguments, const std::vector<const Tensor*>& results,
          const std::vector<const Tensor*>& handed);
  // An evaluation that was prepared and not run.
  void add(const Evaluation& evaluation);
  // What happens before the next one; `step` is no run.
  void add(const Step& step);
  std::unique_ptr<CompiledCall> finish();

 private:
  [[noreturn]] static void refuse(std::string why);
  // Handles that are there after the call, in the order in which it met them.
  std::vector<const Tensor*> survivors(const std::vector<const Tensor*>& arguments,
                                       const std::vector<const Tensor*>& results) const;
  // The origin of a handle that may be the gradient of a state; groups must stand before those that hang on them.
  Origin origin_of_handle(const Tensor* handle) const;
  void add_group(const TensorImpl* impl, const Origin& origin);
  bool is_gradient_of_state(const Tensor* handle) const;
  void add_handle(const Tensor* handle);
  void add_groups(const std::vector<const Tensor*>& arguments);
  void add_handed(const std::vector<const Tensor*>& handed);
  // The group whose value a node is: its own node, or a leaf made over it.
  int group_of_node(const Node* node) const;
  Leaf leaf_of(const Node& node, const Capture& captured) const;
  void add_leaves(const Capture& captured);
  void add_outputs(const Capture& captured);
  Value value_of(const std::shared_ptr<TensorImpl>& impl, bool result);
  MadeState make(const TensorImpl& impl, bool result) const;
  void add_rebinds();
  void add_updates();
  // Everything that is kept of what the call made must be kept by a handle that is known: another one would miss what a
  // replay makes.
  void count_holders();
  static std::string kept_elsewhere(const Node& node);
  long use_count(const TensorImpl* impl) const;
  void drop_outputs();
  bool is_kept(const Output& output) const;

  std::unique_ptr<CompiledCall> call_;
  CompiledCall& p_;
  const Trace& trace_;
  std::vector<const Tensor*> results_;
  std::vector<const Tensor*> survivors_;
  std::unordered_map<const TensorImpl*, int> group_of_, made_of_;
  std::unordered_map<const Node*, int> group_of_node_, holders_;
  std::unordered_map<const Node*, Output> output_of_;
  std::unordered_map<const Node*, bool> in_place_;  // of outputs
  std::vector<const Node*> handed_;
};

}  // namespace heddle
