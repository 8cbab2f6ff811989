// Segments: a recorded graph cut at its collectives, or behind values that are wanted one after the other.
//
// Purpose: a collective needs its operand in the host's memory and other ranks, so what lies before it is one graph of
// the device, what lies behind it another: segment i computes the operand of collective i, and what is left is the
// caller's, one graph more. What an earlier segment computes on the way and a later one reads is kept; constants, views
// and what a checkpoint marks are computed again instead. No rank-local pass sees a collective: to a later segment its
// result is a value that is there. A value that is no collective ends the segment that computes it
// (core/graph/evaluate_in_order.h). Invariants: collectives are made in the order of their recording, each once; an
// assign waits for the last segment unless a collective needs its value, and writes in place only there, so segments
// read old values as recorded. Errors: those of evaluation and of AxisLinks; what was not made then never is. Thread
// safety: as evaluate().
#pragma once

#include <span>
#include <vector>

#include "heddle/core/graph/node.h"
#include "heddle/core/run/last_reads.h"

namespace heddle {

class AxisLinks;

// Costs nothing, has no value of its own, or is marked to be computed again: a later segment does so.
bool is_repeated(const Node& node);
// These alone, and what they need; whatever else is pending stays so.
void evaluate_now(std::span<const NodePtr> roots);

class Segments {
 public:
  // Collectives, or other values, in their order. `roots`: what the caller evaluates afterwards.
  Segments(std::vector<NodePtr> ends, std::span<const NodePtr> roots);
  void run(AxisLinks& links);
  // The next segment, of values that are no collectives: its end has a value then. What nobody reads any more is let
  // go.
  void evaluate(size_t segment);

 private:
  void add(const NodePtr& root, size_t segment);
  const NodePtr& operand(size_t segment) const;
  void forget(size_t segment);
  std::vector<NodePtr> roots_of(size_t segment) const;

  std::vector<NodePtr> ends_;
  std::vector<NodePtr> order_;  // without a value, inputs before users
  SegmentOf segment_;           // that computes the node; of a collective, its number
  LastReads last_reads_;
  std::vector<StoragePtr> guards_;  // of all leaves: an assign is not in place while there are two
};

}  // namespace heddle
