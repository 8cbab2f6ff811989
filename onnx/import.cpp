#include "heddle/onnx/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>

#include "heddle/core/device/context.h"
#include "heddle/onnx/package.h"
#include "heddle/onnx/parse.h"

namespace heddle::onnx {
namespace {

// ShapeError, DTypeError where an input is not what the model says it takes.
void check_input(const Port& port, const Value& value) {
  if (!value.present()) return;
  if (value.is_tensor() != (port.kind == PortKind::tensor) && port.kind == PortKind::tensor)
    throw ValueError(fmt::format("[onnx] input {} must be a tensor", port.name));
  if (!value.is_tensor()) return;
  if (port.type != Type::none && port.type != value.type())
    throw DTypeError(
        fmt::format("[onnx] input {} is {}, the model takes {}", port.name, name_of(value.type()), name_of(port.type)));
  if (!port.shape || port.kind != PortKind::tensor) return;
  bool fits = static_cast<int>(port.shape->size()) == value.shape().rank();
  std::vector<std::string> sizes;
  for (size_t i = 0; i < port.shape->size(); ++i) {
    const Dimension& d = (*port.shape)[i];
    sizes.push_back(d.str());
    fits = fits && (!d.size || *d.size == value.shape()[static_cast<int>(i)]);
  }
  if (!fits)
    throw ShapeError(fmt::format("[onnx] input {} is {}, the model takes ({})", port.name, value.shape().str(),
                                 fmt::join(sizes, ", ")));
}

// Sizes that carry one name are one.
void check_names(const std::vector<Port>& ports, const std::vector<Value>& values) {
  std::map<std::string, std::pair<int64_t, std::string>> sizes;
  for (size_t i = 0; i < ports.size() && i < values.size(); ++i) {
    if (!values[i].is_tensor() || !ports[i].shape) continue;
    for (size_t axis = 0; axis < ports[i].shape->size(); ++axis) {
      const std::string& name = (*ports[i].shape)[axis].name;
      const int64_t size = values[i].shape()[static_cast<int>(axis)];
      if (name.empty()) continue;
      const auto [known, added] = sizes.emplace(name, std::pair(size, ports[i].name));
      if (!added && known->second.first != size)
        throw ShapeError(fmt::format("[onnx] {} is {} in input {} and {} in input {}", name, known->second.first,
                                     known->second.second, size, ports[i].name));
    }
  }
}

}  // namespace

struct Model::State {
  ModelFile file;
  CustomOps custom;
  Report report;
  Constants constants;
  Notes notes;
  std::recursive_mutex turn;

  State(ModelFile given, LoadOptions options)
      : file(std::move(given)),
        custom(std::move(options.custom)),
        report(report_on(file, custom)),
        constants(options.device ? *options.device : default_device()) {}
};

Model::Model(ModelFile file, LoadOptions options)
    : state_(std::make_shared<State>(std::move(file), std::move(options))) {
  if (!report().runs()) throw Unsupported(fmt::format("[onnx] the model cannot run:\n{}", report().text()));
}

const Report& Model::report() const { return state_->report; }

Value Model::given(const HostTensor& host) const {
  const std::string data = host.stored();
  const Tensor tensor = Tensor::from_bytes(data.data(), static_cast<size_t>(host.shape.numel()), storage(host.type),
                                           host.shape, &state_->constants.device());
  return Value::given(tensor, host);
}

std::vector<Value> Model::run(std::vector<Value> inputs) const {
  const std::lock_guard turn(state_->turn);
  const std::vector<Port>& ports = report().inputs;
  if (inputs.size() > ports.size())
    throw ValueError(fmt::format("[onnx] {} inputs for a model that takes {}", inputs.size(), ports.size()));
  for (size_t i = 0; i < ports.size(); ++i) {
    if (i >= inputs.size() || !inputs[i].present()) {
      if (ports[i].kind == PortKind::optional) continue;
      throw ValueError(fmt::format("[onnx] input {} is missing", ports[i].name));
    }
    check_input(ports[i], inputs[i]);
  }
  check_names(ports, inputs);
  // Ports that have initializers of their names keep these.
  std::vector<Value> all;
  for (const Port& port : state_->file.graph.inputs) {
    Value value;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (ports[i].name == port.name) value = inputs[i];
    }
    all.push_back(value);
  }
  Environment here;
  here.opsets = &state_->file.opsets;
  return Walk(state_->file, state_->custom, state_->constants, state_->notes)
      .graph(state_->file.graph, std::move(all), here);
}

Tensor Model::tensor(const Value& value) const {
  if (!value.is_tensor()) throw ValueError("[onnx] an output is no tensor: use run()");
  return value.tensor().defined() ? value.tensor() : state_->constants.tensor(value.host());
}

std::vector<Tensor> Model::call(const std::vector<Tensor>& inputs) const {
  std::vector<Value> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type said = i < this->inputs().size() ? this->inputs()[i].type : Type::none;
    const bool same = said != Type::none && is_held(said) && storage(said) == inputs[i].dtype();
    values.push_back(Value::computed(inputs[i], same ? said : type_of(inputs[i].dtype())));
  }
  std::vector<Tensor> results;
  for (const Value& value : run(std::move(values))) results.push_back(tensor(value));
  return results;
}

std::map<std::string, Tensor> Model::operator()(const std::map<std::string, Tensor>& inputs) const {
  std::vector<Tensor> ordered;
  for (const Port& port : this->inputs()) {
    const auto found = inputs.find(port.name);
    if (found == inputs.end()) throw ValueError(fmt::format("[onnx] input {} is missing", port.name));
    ordered.push_back(found->second);
  }
  if (inputs.size() != ordered.size()) {
    std::vector<std::string> names;
    for (const Port& port : this->inputs()) names.push_back(port.name);
    throw ValueError(fmt::format("[onnx] more inputs than the model takes ({})", fmt::join(names, ", ")));
  }
  std::map<std::string, Tensor> results;
  const std::vector<Tensor> made = call(ordered);
  for (size_t i = 0; i < made.size(); ++i) results.emplace(outputs()[i].name, made[i]);
  return results;
}

std::vector<std::string> Model::waited() const {
  const std::lock_guard turn(state_->turn);
  return {state_->notes.waits.begin(), state_->notes.waits.end()};
}

namespace {

ModelFile read_any(const std::string& path) { return is_package(path) ? read_package(path) : read_model(path); }

}  // namespace

Model load(const std::string& path, LoadOptions options) { return Model(read_any(path), std::move(options)); }
Report inspect(const std::string& path, const CustomOps& custom) { return report_on(read_any(path), custom); }

}  // namespace heddle::onnx
