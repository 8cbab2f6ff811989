// Value: what a name of a graph stands for while its nodes are walked.
//
// Purpose: a tensor on the device, numbers on the host, or both; a sequence; or nothing, for inputs and outputs that
// are left out. Numbers on the host are either fixed (of the file, of shapes) or given (of the caller's inputs, and
// what is computed from them): fixed ones are folded, given ones are computed on the device and known to the host as
// well, by a function that runs only where a node needs them. Invariants: the type and shape never change. Thread
// safety: none; values of one walk belong to its thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/onnx/host_tensor.h"

namespace heddle::onnx {

class Value {
 public:
  Value() = default;  // nothing
  static Value fixed(HostTensor host);
  static Value computed(Tensor tensor, Type type);
  static Value given(Tensor tensor, HostTensor host);
  static Value sequence(std::vector<Value> items, Type type);
  // An optional value without an element.
  static Value empty_optional();

  bool present() const { return state_ != nullptr; }
  bool is_tensor() const;
  bool is_sequence() const;
  bool is_empty_optional() const;
  Type type() const;
  const Shape& shape() const;
  const std::vector<Value>& items() const;
  bool is_fixed() const;
  bool host_known() const;  // without looking at the device
  // The numbers, computed where they are needed first. ValueError unless host_known().
  const HostTensor& host() const;
  // Undefined where there are numbers alone.
  const Tensor& tensor() const;
  // The same value, whose numbers `later` computes.
  void set_later(std::function<HostTensor()> later);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace heddle::onnx
