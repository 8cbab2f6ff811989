#include "heddle/onnx/parse.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/shortened.h"
#include "heddle/io/read_file.h"
#include "heddle/onnx/check.h"
#include "heddle/onnx/proto.h"
#include "heddle/onnx/wire.h"

namespace heddle::onnx {
namespace {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::NodeProto;

Graph graph_of(const GraphProto& graph, const Source& source);

AttributeProto::AttributeType kind_of(const AttributeProto& a) {
  if (a.type() != AttributeProto::UNDEFINED) return a.type();
  if (a.has_f()) return AttributeProto::FLOAT;
  if (a.has_i()) return AttributeProto::INT;
  if (a.has_s()) return AttributeProto::STRING;
  if (a.has_t()) return AttributeProto::TENSOR;
  if (a.has_g()) return AttributeProto::GRAPH;
  if (a.floats_size()) return AttributeProto::FLOATS;
  if (a.ints_size()) return AttributeProto::INTS;
  if (a.strings_size()) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

Attribute attribute_of(const AttributeProto& a, const Source& source) {
  if (!a.ref_attr_name().empty()) return {Attribute::OfFunction{a.ref_attr_name()}};
  switch (kind_of(a)) {
    case AttributeProto::FLOAT:
      return {static_cast<double>(a.f())};
    case AttributeProto::INT:
      return {static_cast<int64_t>(a.i())};
    case AttributeProto::STRING:
      return {a.s()};
    case AttributeProto::TENSOR:
      return {tensor_of(a.t(), source)};
    case AttributeProto::GRAPH:
      return {std::make_shared<const Graph>(graph_of(a.g(), source))};
    case AttributeProto::FLOATS:
      return {std::vector<double>(a.floats().begin(), a.floats().end())};
    case AttributeProto::INTS:
      return {std::vector<int64_t>(a.ints().begin(), a.ints().end())};
    case AttributeProto::STRINGS:
      return {std::vector<std::string>(a.strings().begin(), a.strings().end())};
    case AttributeProto::SPARSE_TENSOR:
      return {Attribute::Other{"a sparse tensor"}};
    case AttributeProto::TYPE_PROTO:
      return {Attribute::Other{"a type"}};
    default:
      return {Attribute::Other{"a list of tensors, graphs or types"}};
  }
}

Node node_of(const NodeProto& n, const Source& source) {
  Node node{n.name(), n.op_type(), plain_domain(n.domain()), {}, {}, {}, n.name()};
  node.inputs.assign(n.input().begin(), n.input().end());
  node.outputs.assign(n.output().begin(), n.output().end());
  if (node.label.empty()) node.label = fmt::format("{}({})", node.op, node.outputs.empty() ? "" : node.outputs.front());
  node.label = shortened(node.label);
  for (const AttributeProto& a : n.attribute()) {
    if (!node.attributes.emplace(a.name(), attribute_of(a, source)).second)
      source.fail(fmt::format("node {} has two attributes '{}'", node.label, a.name()));
  }
  return node;
}

void set_type(Port& port, const ::onnx::TypeProto& type) {
  if (type.has_sequence_type() || type.has_optional_type()) {
    const bool sequence = type.has_sequence_type();
    Port inner;
    set_type(inner, sequence ? type.sequence_type().elem_type() : type.optional_type().elem_type());
    port.kind = sequence ? PortKind::sequence : PortKind::optional;
    port.type = inner.type;
    port.of_sequences = !sequence && inner.kind == PortKind::sequence;
    return;
  }
  if (!type.has_tensor_type()) {
    port.kind = PortKind::other;
    return;
  }
  port.type = static_cast<Type>(type.tensor_type().elem_type());
  if (!type.tensor_type().has_shape()) return;
  port.shape.emplace();
  for (const auto& d : type.tensor_type().shape().dim()) {
    Dimension dimension;
    if (d.has_dim_value() && d.dim_value() >= 0) dimension.size = d.dim_value();
    // What makers write for "unknown" is no name: two such sizes need not be equal.
    if (d.has_dim_param() && d.dim_param() != "?") dimension.name = d.dim_param();
    port.shape->push_back(dimension);
  }
}

Port port_of(const ::onnx::ValueInfoProto& value) {
  Port port;
  port.name = value.name();
  if (value.has_type()) set_type(port, value.type());
  return port;
}

Graph graph_of(const GraphProto& g, const Source& source) {
  Graph graph;
  graph.name = g.name();
  for (const auto& v : g.input()) graph.inputs.push_back(port_of(v));
  for (const auto& v : g.output()) graph.outputs.push_back(port_of(v));
  for (const ::onnx::TensorProto& t : g.initializer()) {
    if (!graph.constants.emplace(t.name(), tensor_of(t, source)).second)
      source.fail(fmt::format("two initializers are called '{}'", t.name()));
  }
  if (g.sparse_initializer_size() > 0) source.fail("sparse initializers are not read; store them dense");
  for (const NodeProto& n : g.node()) graph.nodes.push_back(node_of(n, source));
  return graph;
}

template <class List>
Opsets opsets_of(const List& list, const Source& source) {
  Opsets opsets;
  for (const auto& entry : list) {
    if (entry.version() < 1 || entry.version() > 1'000'000)
      source.fail(fmt::format("opset {} of domain '{}' is none", entry.version(), entry.domain()));
    if (!opsets.emplace(plain_domain(entry.domain()), static_cast<int>(entry.version())).second)
      source.fail(fmt::format("domain '{}' has two opsets", entry.domain()));
  }
  return opsets;
}

// What Debian's onnx.proto does not name is looked for among the unknown fields: fields of newer files that change what
// a node means must not be passed over.
void read_newer_fields(const ::onnx::FunctionProto& f, Function& function, const Source& source) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(f.unknown_fields().data()),
                                            static_cast<int>(f.unknown_fields().size()));
  while (const uint32_t tag = in.ReadTag()) {
    std::string text;
    uint32_t length = 0;
    uint64_t number = 0;
    if ((tag & 7) == 0) {
      in.ReadVarint64(&number);
      continue;
    }
    if ((tag & 7) != 2 || !in.ReadVarint32(&length) || !in.ReadString(&text, static_cast<int>(length)))
      source.fail(fmt::format("function {} has fields that are not known", f.name()));
    if (tag >> 3 == 13 && !text.empty()) source.fail(fmt::format("function {} is one of several overloads", f.name()));
    if (tag >> 3 != 11) continue;
    AttributeProto a;
    if (!a.ParsePartialFromString(text)) source.fail(fmt::format("function {}: a damaged attribute", f.name()));
    function.defaults.emplace(a.name(), attribute_of(a, source));
  }
}

Function function_of(const ::onnx::FunctionProto& f, const Source& source) {
  Function function;
  function.name = f.name();
  function.domain = plain_domain(f.domain());
  function.inputs.assign(f.input().begin(), f.input().end());
  function.outputs.assign(f.output().begin(), f.output().end());
  function.attributes.assign(f.attribute().begin(), f.attribute().end());
  function.opsets = opsets_of(f.opset_import(), source);
  function.body.name = f.name();
  for (const NodeProto& n : f.node()) function.body.nodes.push_back(node_of(n, source));
  read_newer_fields(f, function, source);
  return function;
}

}  // namespace

std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::string Dimension::str() const { return size ? std::to_string(*size) : name.empty() ? "?" : name; }

ModelFile model_of(const ::onnx::ModelProto& proto, const Source& source) {
  ModelFile model;
  model.producer = proto.producer_name();
  for (const auto& entry : proto.metadata_props()) model.properties[entry.key()] = entry.value();
  model.opsets = opsets_of(proto.opset_import(), source);
  model.opsets.emplace("", 1);  // files without it are of the first version
  model.graph = graph_of(proto.graph(), source);
  for (const auto& f : proto.functions()) {
    Function function = function_of(f, source);
    const std::pair<std::string, std::string> key(function.domain, function.name);
    if (!model.functions.emplace(key, std::move(function)).second)
      source.fail(fmt::format("two functions are called {}", f.name()));
  }
  check(model, source.path);
  return model;
}

ModelFile parse_model(std::string_view bytes, const std::string& path, const ExternalData& external) {
  const Source source{path, external};
  return model_of(proto_of(bytes, source), source);
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

ModelFile read_model(const std::string& path) {
  return parse_model(read_text_file(path, "onnx"), path, {folder_of(path)});
}

HostTensor parse_tensor(std::string_view bytes, const std::string& path, std::string* name) {
  const ExternalData none{"."};
  const Source source{path, none};
  check_wire(bytes, WireRoot::tensor, path);
  ::onnx::TensorProto proto;
  parse_into(proto, bytes, source);
  if (proto.data_location() == ::onnx::TensorProto::EXTERNAL) source.fail("a tensor's file must hold its data");
  if (name) *name = proto.name();
  return tensor_of(proto, source);
}

HostTensor read_tensor(const std::string& path, std::string* name) {
  return parse_tensor(read_text_file(path, "onnx"), path, name);
}

}  // namespace heddle::onnx
