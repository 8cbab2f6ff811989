// onnx::load(): a model's file as a function of tensors.
//
//   const onnx::Model model = onnx::load("net.onnx");
//   const Tensor y = model({{"x", x}}).at("y");
//   auto fast = compile([&](const Tensor& x) { return model.call({x})[0]; });
//
// Purpose: a call goes through the graph and calls Heddle's functions, so that it can be compiled, differentiated and
// fused as if it had been written by hand; nothing is evaluated but where a result's size depends on values
// (Report::waits). Inputs that decide about shapes are read on the host: given as a HostTensor they need no wait.
// Invariants: weights go to the device with the first call and stay there. Errors: IoError for the file, Unsupported
// for one that cannot run (the report is its text), ShapeError, DTypeError, ValueError of calls. Thread safety: calls
// of one model from several threads take turns.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/onnx/report.h"

namespace heddle {
class DeviceContext;
}

namespace heddle::onnx {

struct LoadOptions {
  DeviceContext* device = nullptr;  // null: the default one
  CustomOps custom;                 // functions for ops of other domains (or instead of the table's)
};

class Model {
 public:
  Model(ModelFile file, LoadOptions options = {});
  const Report& report() const;
  const std::vector<Port>& inputs() const { return report().inputs; }
  const std::vector<Port>& outputs() const { return report().outputs; }

  // In the order of inputs(); trailing ones with a default may be left out.
  std::vector<Tensor> call(const std::vector<Tensor>& inputs) const;
  std::map<std::string, Tensor> operator()(const std::map<std::string, Tensor>& inputs) const;
  // Sequences, optional values and numbers of the host as well.
  std::vector<Value> run(std::vector<Value> inputs) const;
  // A tensor with its numbers: of an input that may decide about shapes.
  Value given(const HostTensor& host) const;
  // Nodes at which calls so far waited for the device.
  std::vector<std::string> waited() const;
  // As a tensor on the model's device.
  Tensor tensor(const Value& value) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A .onnx file, or a .heddle file that write_package() (package.h) made of one. Unsupported where something in it
// cannot run.
Model load(const std::string& path, LoadOptions options = {});
// The report alone, whatever it says.
Report inspect(const std::string& path, const CustomOps& custom = {});

}  // namespace heddle::onnx
