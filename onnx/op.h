// The rows of ONNX's ops (ops/*.inc): which opsets, which attributes, and the functions that build and fold them.
//
// Purpose: a row holds from one opset to another; `build` records Heddle's functions for a node, `fold` computes it on
// the host where it belongs to the arithmetic of shapes. `attributes` lists what the row understands, "alpha beta
// mode=linear|nearest to=1|6": a name alone takes any value, others those that are listed; a node with anything else is
// reported. Errors of build functions: ShapeError, DTypeError, ValueError; Unsupported for what only shapes tell.
// Thread safety: the table is constant; a Call belongs to its walk's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/onnx/model_file.h"
#include "heddle/onnx/value.h"

namespace heddle::onnx {

inline constexpr int newest_opset = 26;  // that the table knows of the standard's domain

// A node that cannot run with these shapes or values.
class Unsupported : public ValueError {
 public:
  using ValueError::ValueError;
};

// Attributes of the function in whose body a node stands.
using Bound = std::shared_ptr<const std::map<std::string, Attribute>>;

// A node's attributes, with those of the function around it in their places.
class NodeView {
 public:
  NodeView(const Node& node, int opset, Bound bound) : node_(node), opset_(opset), bound_(std::move(bound)) {}
  const Node& node() const { return node_; }
  int opset() const { return opset_; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // ValueError where the attribute is of another type, or without a fallback missing.
  int64_t integer(std::string_view name, std::optional<int64_t> fallback = {}) const;
  double real(std::string_view name, std::optional<double> fallback = {}) const;
  std::string text(std::string_view name, std::optional<std::string> fallback = {}) const;
  std::vector<int64_t> integers(std::string_view name) const;  // empty where it is missing
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  const HostTensor* attribute_tensor(std::string_view name) const;  // null where it is missing
  const Graph& graph(std::string_view name) const;
  const Attribute* find(std::string_view name) const;
  // "[onnx] node conv_1 (Conv): WHAT".
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void unsupported(const std::string& what) const;

 private:
  const Node& node_;
  int opset_;
  Bound bound_;
};

// A node whose inputs are all known on the host.
class HostCall : public NodeView {
 public:
  HostCall(const NodeView& view, std::vector<const HostTensor*> inputs) : NodeView(view), inputs_(std::move(inputs)) {}
  size_t count() const { return inputs_.size(); }
  bool given(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  const HostTensor& input(size_t i) const;
  std::vector<int64_t> ints(size_t i) const { return input(i).ints(); }

 private:
  std::vector<const HostTensor*> inputs_;
};

class Walk;
struct Environment;

// A node that is being walked.
class Call : public NodeView {
 public:
  Call(const NodeView& view, Walk& walk, const Environment& around, std::vector<Value> inputs)
      : NodeView(view), walk_(walk), around_(around), inputs_(std::move(inputs)) {}
  size_t count() const { return inputs_.size(); }
  bool given(size_t i) const { return i < inputs_.size() && inputs_[i].present(); }
  // ValueError where it is missing or no tensor.
  const Value& value(size_t i) const;
  const Value& any(size_t i) const;  // sequences and optionals too
  Tensor tensor(size_t i) const;
  Tensor tensor_or(size_t i) const { return given(i) ? tensor(i) : Tensor(); }
  Type type(size_t i) const { return value(i).type(); }
  const Shape& shape(size_t i) const { return value(i).shape(); }
  int rank(size_t i) const { return value(i).shape().rank(); }
  int axis(int64_t axis, int rank) const;
  // On the host; where it is not known, the device is waited for and the report says so.
  std::vector<int64_t> ints(size_t i) const;
  std::vector<double> numbers(size_t i) const;
  int64_t whole(size_t i) const;  // one element
  bool known(size_t i) const { return given(i) && inputs_[i].host_known(); }
  // An attribute in older opsets, an input in newer ones; nothing where neither is there.
  std::optional<std::vector<int64_t>> list(std::string_view attribute, size_t i) const;
  Tensor constant(const HostTensor& host) const;
  DeviceContext& device() const;

  size_t outputs() const { return node().outputs.size(); }
  bool wanted(size_t i) const { return i < outputs() && !node().outputs[i].empty(); }
  void out(Value value) { results_.push_back(std::move(value)); }
  void out(const Tensor& tensor) { out(tensor, type_of(tensor.dtype())); }
  void out(const Tensor& tensor, Type type) { results_.push_back(Value::computed(tensor, type)); }
  std::vector<Value>& results() { return results_; }
  const std::vector<Value>& inputs() const { return inputs_; }

  // A graph of this node, with what is around it in sight.
  std::vector<Value> run(const Graph& graph, std::vector<Value> inputs) const;
  Tensor tensor_of(const Value& value) const;
  // The result's size depends on values that the host had to wait for.
  void note_wait() const;

 private:
  Walk& walk_;
  const Environment& around_;
  std::vector<Value> inputs_, results_;
};

using Build = void (*)(Call&);
using Fold = std::vector<HostTensor> (*)(const HostCall&);

struct Op {
  const char* name;
  const char* domain;
  int first, last;  // opsets; last 0: as far as is known
  const char* attributes;
  Build build;
  Fold fold;  // null: none
};

// The domain of functions that stand for Heddle's rows in what it exports: rows of the table go before what the file
// says of them.
inline constexpr const char* own_domain = "heddle";

std::span<const Op> op_table();
// Null where no row holds. `nearest`, unless null, becomes a row of that name for other opsets.
const Op* find_op(const std::string& domain, const std::string& name, int opset, const Op** nearest = nullptr);
// What the row does not understand about a node's attributes, e.g. "attribute mode = 'cubic'"; empty: nothing.
std::string attribute_complaint(const Op& op, const NodeView& node);

}  // namespace heddle::onnx
