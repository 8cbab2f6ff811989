#include "heddle/onnx/serialize.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx.pb.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/onnx/narrow_types.h"
#include "heddle/onnx/proto.h"

namespace heddle::onnx {
namespace {

using ::onnx::AttributeProto;

// The version of the file's form that came with an opset.
int64_t ir_version(int opset) { return opset < 19 ? 8 : opset < 21 ? 9 : opset < 23 ? 10 : 11; }

constexpr uint64_t alignment = 64, least_external = 1024;
constexpr uint64_t most_bytes = (uint64_t{1} << 31) - (uint64_t{1} << 20);  // the rest is for names and nodes

void set_type(::onnx::TensorProto& to, const HostTensor& tensor, const std::string& name) {
  to.set_name(name);
  to.set_data_type(static_cast<int>(tensor.type));
  for (const int64_t dim : tensor.shape) to.add_dims(dim);
}

void set_tensor(::onnx::TensorProto& to, const HostTensor& tensor, const std::string& name) {
  set_type(to, tensor, name);
  to.set_raw_data(packed(tensor.type, *tensor.bytes));
}

void set_initializer(::onnx::TensorProto& to, const HostTensor& tensor, const std::string& name,
                     ExternalFile* external) {
  static constexpr char zeros[alignment] = {};
  const uint64_t length = tensor.bytes->size();
  const bool whole_bytes = bytes_in_file(tensor.type, static_cast<uint64_t>(tensor.shape.numel())) ==
                           length;  // others would have to be packed first
  if (!external || length < least_external || !whole_bytes) return set_tensor(to, tensor, name);
  const uint64_t offset = round_up(external->bytes, alignment);
  external->parts.push_back({zeros, static_cast<size_t>(offset - external->bytes)});
  external->parts.push_back({tensor.bytes->data(), static_cast<size_t>(length)});
  external->bytes = offset + length;
  set_type(to, tensor, name);
  set_external(to, external->name, offset, length);
}

void set_graph(::onnx::GraphProto& to, const Graph& graph, ExternalFile* external = nullptr);

struct SetValue {
  AttributeProto& to;

  void operator()(double value) const {
    to.set_type(AttributeProto::FLOAT);
    to.set_f(static_cast<float>(value));
  }
  void operator()(int64_t value) const {
    to.set_type(AttributeProto::INT);
    to.set_i(value);
  }
  void operator()(const std::string& value) const {
    to.set_type(AttributeProto::STRING);
    to.set_s(value);
  }
  void operator()(const HostTensor& value) const {
    to.set_type(AttributeProto::TENSOR);
    set_tensor(*to.mutable_t(), value, "");
  }
  void operator()(const std::shared_ptr<const Graph>& value) const {
    to.set_type(AttributeProto::GRAPH);
    set_graph(*to.mutable_g(), *value);
  }
  void operator()(const std::vector<double>& values) const {
    to.set_type(AttributeProto::FLOATS);
    for (const double value : values) to.add_floats(static_cast<float>(value));
  }
  void operator()(const std::vector<int64_t>& values) const {
    to.set_type(AttributeProto::INTS);
    for (const int64_t value : values) to.add_ints(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    to.set_type(AttributeProto::STRINGS);
    for (const std::string& value : values) to.add_strings(value);
  }
  void operator()(const Attribute::OfFunction&) const { fail(); }
  void operator()(const Attribute::Other&) const { fail(); }
  [[noreturn]] void fail() const {
    throw ValueError(fmt::format("[export] attribute {} is of a type that is not written", to.name()));
  }
};

void set_node(::onnx::NodeProto& to, const Node& node) {
  for (const std::string& input : node.inputs) to.add_input(input);
  for (const std::string& output : node.outputs) to.add_output(output);
  if (!node.name.empty()) to.set_name(node.name);
  to.set_op_type(node.op);
  if (!node.domain.empty()) to.set_domain(node.domain);
  for (const auto& [name, attribute] : node.attributes) {
    AttributeProto& made = *to.add_attribute();
    made.set_name(name);
    std::visit(SetValue{made}, attribute.value);
  }
}

void set_port(::onnx::ValueInfoProto& to, const Port& port) {
  to.set_name(port.name);
  ::onnx::TypeProto::Tensor& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int>(port.type));
  if (!port.shape) return;
  add_dimensions(*type.mutable_shape(), *port.shape);
}

void set_graph(::onnx::GraphProto& to, const Graph& graph, ExternalFile* external) {
  to.set_name(graph.name);
  for (const Node& node : graph.nodes) set_node(*to.add_node(), node);
  for (const auto& [name, tensor] : graph.constants) set_initializer(*to.add_initializer(), tensor, name, external);
  for (const Port& port : graph.inputs) set_port(*to.add_input(), port);
  for (const Port& port : graph.outputs) set_port(*to.add_output(), port);
}

void set_opset(::onnx::OperatorSetIdProto& to, const std::string& domain, int version) {
  to.set_domain(domain);
  to.set_version(version);
}

void set_function(::onnx::FunctionProto& to, const Function& function) {
  to.set_name(function.name);
  to.set_domain(function.domain);
  for (const std::string& input : function.inputs) to.add_input(input);
  for (const std::string& output : function.outputs) to.add_output(output);
  for (const std::string& attribute : function.attributes) to.add_attribute(attribute);
  for (const Node& node : function.body.nodes) set_node(*to.add_node(), node);
  for (const auto& [domain, version] : function.opsets) set_opset(*to.add_opset_import(), domain, version);
}

uint64_t bytes_of_constants(const Graph& graph) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : graph.constants) bytes += tensor.bytes->size();
  return bytes;
}

}  // namespace

bool needs_external_file(const ModelFile& model) { return bytes_of_constants(model.graph) >= most_bytes; }

std::string serialize(const ModelFile& model, ExternalFile* external) {
  if (!external && needs_external_file(model))
    throw ValueError(fmt::format("[export] the weights have {} bytes; a file without external data has less than 2 GiB",
                                 bytes_of_constants(model.graph)));
  ::onnx::ModelProto proto;
  const auto opset = model.opsets.find("");
  proto.set_ir_version(ir_version(opset == model.opsets.end() ? 17 : opset->second));
  proto.set_producer_name(model.producer);
  for (const auto& [domain, version] : model.opsets) set_opset(*proto.add_opset_import(), domain, version);
  for (const auto& [key, value] : model.properties) {
    ::onnx::StringStringEntryProto& entry = *proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  set_graph(*proto.mutable_graph(), model.graph, external);
  for (const auto& [key, function] : model.functions) set_function(*proto.add_functions(), function);
  std::string bytes;
  google::protobuf::io::StringOutputStream out(&bytes);
  google::protobuf::io::CodedOutputStream coded(&out);
  coded.SetSerializationDeterministic(true);
  if (!proto.SerializePartialToCodedStream(&coded))
    throw ValueError("[export] the graph is larger than protobuf writes (2 GiB)");
  coded.Trim();
  return bytes;
}

}  // namespace heddle::onnx
