// ReduceRows: what the loop structures of a reduce group (lower_reduce.cpp) have in common.
//
// Purpose: it learns how the group indexes memory, merges axes, and prints the pieces that each structure puts into its
// own loops: what a row needs before a pass, what enters the accumulators, what is stored. Invariants: the emitter is
// at its start, with its indices learnt, when a structure begins. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/ir/group_access.h"
#include "heddle/core/lower/axes.h"
#include "heddle/core/lower/lower_input.h"
#include "heddle/core/lower/row_phases.h"

namespace heddle {

class ReduceRows {
 public:
  explicit ReduceRows(const LowerInput& in);

  const LowerInput& in;
  Emitter e;
  const RowPhases phases_of;
  std::vector<Axis> outer, inner;  // axes of the rows, and along a row
  int64_t rows = 1, length = 1;
  bool length_varies = false;
  int64_t picked_rows = 1, picked_length = 1;  // nominal where they vary

  const Graph& graph() const { return in.scheduled.graph; }
  const Group& group() const { return in.group; }
  const std::vector<std::vector<Reducer>>& phases() const { return phases_of.phases(); }
  Shape domain_of(Level level) const { return level == Level::full ? full_shape(group()) : group().domain; }
  // Whether lanes run over neighbouring rows, not along a row: where that reads memory in longer stretches.
  bool lanes_on_rows() const { return lanes_on_rows_; }
  // A joined row that is one row: its lanes do not depend on its length, so that all such joined rows have one text.
  bool whole_joined_row() const { return in.options.joined && outer.empty(); }
  // The reads of memory, from number `first` of the emitter's loads on, at an affine index that changes along the row:
  // the position within the row says where they are.
  std::vector<LoadSite> reads_along(size_t first = 0) const;
  // Those of each pass, the one that stores last. Only with the emitter at its start, where it is afterwards.
  std::vector<std::vector<LoadSite>> learn_reads();
  // Times each row is walked.
  int64_t passes() const { return static_cast<int64_t>(phases().size()) + stores_at(Level::full); }
  bool stores_at(Level level) const;

  // ---- text
  void open_inner_loops(size_t count);
  void close_loops(size_t count);
  // What belongs to a row is computed before the loop that needs it.
  void settle_row(size_t pass);
  // The inputs of a phase's reductions enter the accumulators of a lane.
  void accumulate(const std::vector<Reducer>& phase, const std::string& lane);
  void store_members(Level level);

 private:
  bool some_length_varies() const;
  void learn_indices();
  std::string input_value(const Reducer& r);
  bool choose_lanes_on_rows() const;

  bool lanes_on_rows_ = false;
};

}  // namespace heddle
