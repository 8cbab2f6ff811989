// CompiledCall: a traced call of a function as something that can run again without the function.
//
// Purpose: which tensors of the caller the recorded graph reads (and must still look the same), where host numbers come
// from, and which tensors the results are put into. Made from a Trace and the Evaluation that the call recorded;
// core/compile/compiled.cpp decides when it may be used. Where results are handed over one after the other there are
// several recorded graphs, and steps between them. Invariants: equal programs of two calls mean that the second
// call did what a run of the first one's program would have done. Thread safety: none; the compiled function that owns
// it locks.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/compile/hand_over.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/graph/trace.h"
#include "heddle/core/run/evaluation.h"

namespace heddle {

// What a run made. Sets of small results are kept, so that a loop that drops them allocates nothing.
struct ResultSet {
  std::vector<StoragePtr> own;
  std::vector<Tensor> made;
};

class CompiledCall {
 public:
  class Builder;  // makes all there is (core/compile/compiled_call_builder.h)
  ~CompiledCall();
  CompiledCall(const CompiledCall&) = delete;
  CompiledCall& operator=(const CompiledCall&) = delete;

  // Where they differ; empty: both do the same with the same tensors.
  std::string_view difference(const CompiledCall& other) const;
  bool same_as(const CompiledCall& other) const { return difference(other).empty(); }
  // From now on reports when a handle that it reads or writes is gone.
  void watch();
  // Takes the closures of a later call of the same program.
  void renew(CompiledCall& later) { actions_ = std::move(later.actions_); }

  // Whether every tensor still is what the recorded graph was planned for, and which.
  bool fits(const std::vector<const Tensor*>& arguments);
  // Lets go of what the last fits() found: while it is held, no update is in origin.
  void release();
  // Runs on what the last fits() found; `results` receive values without history, but for those that `made` is given.
  void run(const std::vector<Tensor*>& results, const Ready& ready = {}, const Made& made = {});

  bool has_effects() const { return !rebinds_.empty() || !updates_.empty(); }

  // What a run does, in order: runs a segment; asks this thread's lender for a group; hands a result over; lets go of
  // an output that nobody reads any more.
  struct Step {
    enum class Kind : uint8_t { run, lend, fetch, take_back, hand_over, drop } kind = Kind::run;
    size_t number = 0;  // segment, group or place; of an output the segment that makes it
    size_t output = 0;
    bool operator==(const Step&) const = default;
  };

 private:
  // Where a tensor of the caller is found: an argument, a handle, or the gradient of a group.
  struct Origin {
    enum class Kind : uint8_t { argument, handle, gradient } kind = Kind::handle;
    int index = -1;  // argument or group
    const Tensor* handle = nullptr;
    bool operator==(const Origin&) const = default;
  };
  // A tensor of the caller (one TensorImpl), and what it must look like.
  struct Group {
    Origin origin;
    Shape shape;
    DType dtype = DType::f32;
    DeviceContext* device = nullptr;
    bool tracks = false, requires_grad = false, hosted = false;
    bool lent = false;  // it has a value while it is lent (core/graph/lender.h)
    size_t hooks = 0;
    int same_node_as = -1;  // an earlier group with the same value
    bool operator==(const Group&) const = default;
  };
  // A further handle: refers to a group, or to nothing.
  struct Alias {
    Origin origin;
    int group = -1;
    bool operator==(const Alias&) const = default;
  };
  // A value that a segment computes.
  struct Output {
    int segment = -1, number = -1;  // -1: none
    bool operator==(const Output&) const = default;
  };
  // A value that a segment reads: storage slots and host slots in the order of the capture.
  struct Leaf {
    int group = -1;   // -1: a host number with a source, or an output
    int action = -1;  // that source
    Output output;    // of an earlier segment
    int slot = -1;    // of the storage; -1: a host value
    View view;
    bool operator==(const Leaf&) const = default;
  };
  // A recorded graph, and what it is run on.
  struct Segment {
    std::shared_ptr<CompiledGraph> graph;
    std::vector<uint64_t> key;
    std::vector<Leaf> leaves;
    std::vector<bool> written_slots;  // of the caller
    std::vector<uint64_t> bases;      // by slot: Capture::bases
    std::vector<DType> output_dtypes;
  };
  // What a handle refers to at the end.
  struct Value {
    enum class Kind : uint8_t { nothing, group, made } kind = Kind::nothing;
    int index = -1;
    bool operator==(const Value&) const = default;
  };
  // A tensor state that the call made: an output, or another handle's value.
  struct MadeState {
    Output output;
    int group = -1;
    bool operator==(const MadeState&) const = default;
  };
  struct Rebind {
    Origin origin;
    Value value;
    bool operator==(const Rebind&) const = default;
  };
  // An assign: a group's new value.
  struct Update {
    int group = -1;
    Output output;
    bool in_place = false;
    bool operator==(const Update&) const = default;
  };

  CompiledCall() = default;
  const Tensor* resolve(const Origin& origin, const std::vector<const Tensor*>& arguments,
                        const std::vector<std::shared_ptr<TensorImpl>>& impls) const;
  bool fits_group(size_t g, const std::vector<const Tensor*>& arguments);
  bool fits_leaves();
  bool fits_leaves(const Segment& segment);
  // What the steps of a run have made so far.
  struct Run {
    std::vector<HostValue> drawn;      // by action
    std::vector<GraphResult> results;  // by segment
    const ResultSet* known = nullptr;
  };
  std::vector<HostValue> draw() const;
  const GraphOutput& output_of(const Run& run, const Output& output) const;
  void take(const Step& step, Run& run, const Ready& ready, const Made& made) const;
  void run_segment(size_t number, Run& run, const Ready& ready) const;
  void hand_over(size_t place, const Run& run, const Made& made) const;
  void update(const Update& update, const GraphOutput& output);
  // A set of results of an earlier run that nobody holds any more, or null.
  const ResultSet* reusable() const;
  const ResultSet* make_results(Run& run);

  DeviceContext* device_ = nullptr;
  std::vector<Segment> segments_;
  std::vector<Step> steps_;
  std::vector<Output> handed_;  // by place
  std::vector<Group> groups_;
  std::vector<Alias> aliases_;
  std::vector<Trace::Action> actions_;
  std::vector<size_t> action_kinds_;  // 0 effect, 1 source: compared
  std::vector<MadeState> made_;
  std::vector<Rebind> rebinds_;
  std::vector<Update> updates_;
  std::vector<Value> results_;

  std::vector<ResultSet> sets_;
  std::vector<long> owners_;  // of each storage of a set that nobody else holds
  bool keeps_sets_ = true;

  // Of the last fits().
  std::vector<std::shared_ptr<TensorImpl>> found_;
  std::vector<const StoragePtr*> slots_;  // of one segment

  std::vector<const Tensor*> watched_;
  std::shared_ptr<std::atomic<bool>> valid_ = std::make_shared<std::atomic<bool>>(true);
};

}  // namespace heddle
