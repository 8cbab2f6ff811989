#if HEDDLE_HAS_ONNX
#include "tools/run_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/data/numpy.h"
#include "tools/import_model.h"

namespace heddle::tools {
namespace {

std::pair<std::string, std::string> split(const std::string& option, const std::string& text, const char* form) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos) throw ValueError(fmt::format("[run] {} '{}' is not {}", option, text, form));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

size_t number_of(const std::vector<onnx::Port>& ports, const std::string& name, const char* what) {
  const auto found = std::ranges::find(ports, name, &onnx::Port::name);
  if (found == ports.end()) throw ValueError(fmt::format("[run] the model has no {} {}", what, name));
  return static_cast<size_t>(found - ports.begin());
}

// The parts of an array along its first axis.
std::vector<onnx::HostTensor> parts_of(const data::Array& array, const onnx::Port& port) {
  if (array.shape.rank() == 0) throw ValueError(fmt::format("[run] --each {}: its array has no axis", port.name));
  const auto count = static_cast<size_t>(array.shape[0]);
  if (count == 0) throw ValueError(fmt::format("[run] --each {}: its array has no parts", port.name));
  std::vector<int64_t> sizes;
  for (int axis = 1; axis < array.shape.rank(); ++axis) sizes.push_back(array.shape[axis]);
  const size_t bytes = array.bytes.size() / count;
  std::vector<onnx::HostTensor> parts;
  for (size_t i = 0; i < count; ++i) {
    const auto begin = array.bytes.begin() + static_cast<ptrdiff_t>(i * bytes);
    parts.push_back(host_tensor({array.dtype, Shape(sizes), {begin, begin + static_cast<ptrdiff_t>(bytes)}}, port));
  }
  return parts;
}

}  // namespace

RunInputs::RunInputs(const onnx::Model& model, const std::vector<std::string>& files,
                     const std::vector<std::string>& each, const std::vector<std::string>& carry) {
  const std::vector<onnx::Port>& ports = model.inputs();
  for (const onnx::Port& port : ports) {
    if (port.kind != onnx::PortKind::tensor) throw ValueError(fmt::format("[run] input {} is no tensor", port.name));
  }
  values_.resize(ports.size());
  for (const std::string& name : each) number_of(ports, name, "input");
  for (const std::string& text : files) {
    const auto [name, file] = split("--input", text, "NAME=FILE.npy");
    const size_t i = number_of(ports, name, "input");
    const data::Array array = data::read_npy(file);
    if (std::ranges::find(each, name) == each.end()) {
      values_[i].push_back(host_tensor(array, ports[i]));
    } else {
      if (!values_[i].empty()) throw ValueError(fmt::format("[run] --each {} takes one file", name));
      values_[i] = parts_of(array, ports[i]);
    }
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    const size_t count = values_[i].size();
    if (count == 0)
      throw ValueError(fmt::format("[run] input {} is missing: --input {}=FILE.npy", ports[i].name, ports[i].name));
    if (count > 1 && calls_ > 1 && count != calls_)
      throw ValueError(fmt::format("[run] input {} has {} values, another one {}", ports[i].name, count, calls_));
    calls_ = std::max(calls_, count);
  }
  for (const std::string& text : carry) {
    const auto [output, input] = split("--carry", text, "OUTPUT=INPUT");
    const size_t i = number_of(ports, input, "input");
    if (values_[i].size() > 1) throw ValueError(fmt::format("[run] --carry: input {} has values of its own", input));
    if (!carried_.emplace(i, number_of(model.outputs(), output, "output")).second)
      throw ValueError(fmt::format("[run] --carry names input {} twice", input));
  }
}

std::vector<onnx::HostTensor> RunInputs::of(size_t call) const {
  std::vector<onnx::HostTensor> inputs;
  for (const std::vector<onnx::HostTensor>& values : values_) inputs.push_back(values[values.size() == 1 ? 0 : call]);
  return inputs;
}

}  // namespace heddle::tools
#endif
