// An evaluation: what one evaluation computes on one device, from capture to values.
//
// Purpose: evaluate() runs evaluations; compile() (core/compile/compile.h) looks at one between its capture and its
// run, and replays it with other storages. Invariants: prepare, then run, with nothing recorded between. Thread safety:
// as evaluate().
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/ir/ir.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/graph_result.h"

namespace heddle {

struct Evaluation {
  DeviceContext* device = nullptr;
  Capture captured;
  std::shared_ptr<CompiledGraph> graph;  // null on a device that takes no kernels, and when there is nothing to compute
  std::shared_ptr<void> lent;            // what lent leaves have their values for (core/run/lent_segments.h); or null
};

// What this thread holds pending, and `roots`, by device in order of first appearance. Forgets what is pending.
std::vector<std::vector<NodePtr>> take_pending(std::span<const NodePtr> roots);
// Puts nodes back that were taken but not computed (an exception came between).
void put_back(std::span<const std::vector<NodePtr>> lists);
// Whether this thread has recorded anything since its last evaluation.
bool anything_pending();

// `early`: values held by a Tensor that are wanted first, in that order.
Evaluation prepare_evaluation(DeviceContext& device, std::span<const NodePtr> roots,
                              std::span<const NodePtr> early = {});
// The node has its value; its past is only kept for gradients.
void give_value(Node& node, StoragePtr storage, const View& view);
// Gives the outputs of the capture their values. `ready`: CompiledGraph::run().
void run_evaluation(Evaluation& evaluation, const Ready& ready = {});

// While alive, hears of this thread's evaluations that compute something: each is prepared, and runs next. Not nested.
class EvaluationWatch {
 public:
  explicit EvaluationWatch(Callable<void(const Evaluation&)> hear);
  ~EvaluationWatch();
  EvaluationWatch(const EvaluationWatch&) = delete;
  EvaluationWatch& operator=(const EvaluationWatch&) = delete;
  static void note(const Evaluation& evaluation);

 private:
  Callable<void(const Evaluation&)> hear_;
};

}  // namespace heddle
