// LentSegments: a recorded graph cut where it reads other groups of leaves that are lent (core/graph/lender.h).
//
// Purpose: of a model whose parameters are gathered for their readers alone, each segment computes what reads the
// groups that are there, in the order in which the graph was recorded: of a training step first the forward pass, group
// by group, then the backward pass, which ends a segment behind each value that is wanted on the way. What a segment
// computes and a later one reads is kept; constants, views, what a checkpoint marks, and what is made of lent leaves
// elementwise (a cast to 16 bits) are computed again instead, since each would keep what was to be let go. Invariants:
// a segment reads groups of one group's size together, the largest's, unless one operation reads more, or cutting so
// finely would bring all groups more than twice: then of twice, four times ... the size. An assign waits for the
// caller's evaluation unless a segment needs its value. Errors: those of evaluation and of the lender. Thread safety:
// as evaluate().
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "heddle/core/graph/lender.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/run/last_reads.h"

namespace heddle {

class LentSegments {
 public:
  // `ends`: values that are wanted in that order. `roots`: what the caller evaluates afterwards.
  LentSegments(std::vector<NodePtr> ends, std::span<const NodePtr> roots, Lender& lender);

  size_t count() const { return groups_.size(); }
  // The one that computes an end.
  size_t segment_of_end(size_t end) const { return segment_of_end_[end]; }
  // Groups that a segment reads, by number.
  const std::set<size_t>& groups(size_t segment) const { return groups_[segment]; }
  // Lends what the segment reads, enqueues it, begins to fetch for the next one, and takes back what that does not
  // read. Ends that it computes have values then.
  void evaluate(size_t segment);

 private:
  using Groups = std::set<size_t>;

  void add(const NodePtr& root);
  void note_reads(const Node& node);
  bool computed_again(const Node& node) const;
  bool made_of_lent(const Node& node) const;
  Groups reads_of(const Node& node) const;
  void cut(uint64_t most);
  uint64_t bytes_of(const Groups& groups) const;
  uint64_t bytes_brought() const;
  std::vector<NodePtr> roots_of(size_t segment) const;
  bool read_later(size_t group, size_t segment) const;

  Lender& lender_;
  std::vector<NodePtr> ends_;
  std::vector<NodePtr> order_;                       // without a value, inputs before users
  std::unordered_map<const Node*, Groups> reads_;    // of each in order_: what computing it alone reads
  std::unordered_map<const Node*, bool> from_lent_;  // of each in order_
  std::unordered_map<const Node*, bool> wanted_;     // ends, roots
  std::vector<Groups> groups_;                       // by segment
  SegmentOf segment_;                                // that computes the node
  LastReads last_reads_;
  std::vector<size_t> segment_of_end_;
  std::vector<StoragePtr> guards_;  // of all leaves: an assign is not in place while there are two
};

// Computes all of `roots` but the last segment, whose groups are lent until the result is gone. Null where this thread
// has no lender, or nothing lent is read.
std::shared_ptr<void> lend_for(std::span<const NodePtr> roots);

}  // namespace heddle
