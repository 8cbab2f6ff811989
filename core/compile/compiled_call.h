// CompiledCall: a traced call of a function as something that can run again without the function.
//
// Purpose: which tensors of the caller the recorded graph reads (and must still look the same), where host numbers come
// from, and which tensors the results are put into. Made from a Trace and the Evaluation that the call recorded;
// core/compile/compiled.cpp decides when it may be used. Invariants: equal programs of two calls mean that the second
// call did what a run of the first one's program would have done. Thread safety: none; the compiled function that owns
// it locks.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  // Runs on what the last fits() found; `results` receive values without history.
  void run(const std::vector<Tensor*>& results, const Ready& ready = {});

  bool has_effects() const { return !rebinds_.empty() || !updates_.empty(); }
  size_t result_count() const { return results_.size(); }

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
  // A value that the graph reads: storage slots and host slots in the order of the capture.
  struct Leaf {
    int group = -1;   // -1: a host number with a source
    int action = -1;  // that source
    int slot = -1;    // of the storage; -1: a host value
    View view;
    bool operator==(const Leaf&) const = default;
  };
  // What a handle refers to at the end.
  struct Value {
    enum class Kind : uint8_t { nothing, group, made } kind = Kind::nothing;
    int index = -1;
    bool operator==(const Value&) const = default;
  };
  // A tensor state that the call made: an output of the graph, or another handle's value.
  struct Made {
    int output = -1;
    int group = -1;
    bool operator==(const Made&) const = default;
  };
  struct Rebind {
    Origin origin;
    Value value;
    bool operator==(const Rebind&) const = default;
  };
  // An assign: a group's new value.
  struct Update {
    int group = -1;
    int output = -1;
    bool in_place = false;
    bool operator==(const Update&) const = default;
  };

  CompiledCall() = default;
  const Tensor* resolve(const Origin& origin, const std::vector<const Tensor*>& arguments,
                        const std::vector<std::shared_ptr<TensorImpl>>& impls) const;
  bool fits_group(size_t g, const std::vector<const Tensor*>& arguments);
  bool fits_leaves();
  void update(const Update& update, const GraphOutput& output);
  // A set of results of an earlier run that nobody holds any more, or null.
  const ResultSet* reusable() const;
  const ResultSet* make_results(GraphResult& result);

  DeviceContext* device_ = nullptr;
  std::shared_ptr<CompiledGraph> graph_;
  std::vector<uint64_t> key_;
  std::vector<Group> groups_;
  std::vector<Alias> aliases_;
  std::vector<Leaf> leaves_;
  std::vector<bool> written_slots_;  // in origin
  std::vector<uint64_t> bases_;      // by slot: Capture::bases
  std::vector<Trace::Action> actions_;
  std::vector<size_t> action_kinds_;  // 0 effect, 1 source: compared
  std::vector<Made> made_;
  std::vector<Rebind> rebinds_;
  std::vector<Update> updates_;
  std::vector<Value> results_;
  std::vector<DType> output_dtypes_;

  std::vector<ResultSet> sets_;
  std::vector<long> owners_;  // of each storage of a set that nobody else holds
  bool keeps_sets_ = true;

  // Of the last fits().
  std::vector<std::shared_ptr<TensorImpl>> found_;
  std::vector<StoragePtr> storages_;

  std::vector<const Tensor*> watched_;
  std::shared_ptr<std::atomic<bool>> valid_ = std::make_shared<std::atomic<bool>>(true);
};

}  // namespace heddle
