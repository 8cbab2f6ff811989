// Walk: goes through a graph's nodes and calls Heddle's functions for each.
//
// Purpose: one walk for each call of a model; it records and evaluates nothing, but where a node's result is sized by
// values that only the device knows (Notes::waits names those nodes). Invariants: a value is let go after its last
// reader, so that what lies between may vanish into fusion. Errors: those of the functions, with the node's name.
// Thread safety: a walk belongs to its thread; Constants may be shared by walks one after the other.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "heddle/onnx/op.h"

namespace heddle::onnx {

// Nodes of a domain of the caller's: takes the inputs (undefined where they are left out) and gives the outputs.
using CustomOp = Callable<std::vector<Tensor>(const NodeView& node, const std::vector<Tensor>& inputs)>;
using CustomOps = std::map<std::pair<std::string, std::string>, CustomOp>;  // by domain and op

// What the file alone says: its tensors on the device, and what nodes make of them on the host, kept from walk to walk.
class Constants {
 public:
  explicit Constants(DeviceContext& device) : device_(device) {}
  Tensor tensor(const HostTensor& host);
  // Results of a node whose inputs are of the file, by `fold` once for the same inputs: weights that it puts together
  // or cuts are made, and go to the device, once. Nothing where large inputs would become larger or of another type:
  // they stay as packed as they are.
  std::vector<HostTensor> folded(const Node& node, const std::vector<const HostTensor*>& inputs,
                                 const std::function<std::vector<HostTensor>()>& fold);
  DeviceContext& device() const { return device_; }

 private:
  struct Kept {
    HostTensor host;  // so that its bytes stay where they are
    Tensor tensor;
  };
  struct Folded {
    std::vector<HostTensor> inputs, results;
  };
  DeviceContext& device_;
  std::unordered_map<const Node*, Folded> by_node_;
  std::map<std::pair<const void*, std::string>, Kept> by_place_;
  std::map<std::string, Kept> by_content_;
};

struct Notes {
  std::set<std::string> waits;  // nodes at which the host waited for the device
};

struct Environment {
  const Environment* around = nullptr;
  const Opsets* opsets = nullptr;
  Bound bound;
  std::unordered_map<std::string, Value> values;
  const Value* find(const std::string& name) const;
};

class Walk {
 public:
  Walk(const ModelFile& model, const CustomOps& custom, Constants& constants, Notes& notes)
      : model_(model), custom_(custom), constants_(constants), notes_(notes) {}
  // One value for each output; `inputs` are for those of the graph, absent ones take the initializers of that name.
  std::vector<Value> graph(const Graph& graph, std::vector<Value> inputs, Environment& here);
  Constants& constants() { return constants_; }
  Notes& notes() { return notes_; }

 private:
  std::vector<Value> node(const Node& node, std::vector<Value> inputs, const Environment& here);
  std::vector<Value> function(const Function& function, const NodeView& view, std::vector<Value> inputs);
  std::vector<Value> row(const Op& op, const NodeView& view, std::vector<Value> inputs, const Environment& here);
  std::vector<Value> checked_row(const Op& op, const NodeView& view, std::vector<Value> inputs,
                                 const Environment& here);
  std::vector<Value> custom(const CustomOp& op, const NodeView& view, const std::vector<Value>& inputs);

  const ModelFile& model_;
  const CustomOps& custom_;
  Constants& constants_;
  Notes& notes_;
};

}  // namespace heddle::onnx
