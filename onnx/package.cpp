#include "heddle/onnx/package.h"

#include <fmt/format.h>

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/path.h"
#include "heddle/io/read_file.h"
#include "heddle/io/sha256.h"
#include "heddle/io/write_model_parts.h"
#include "heddle/onnx/narrow_types.h"
#include "heddle/onnx/parse.h"
#include "heddle/onnx/proto.h"

namespace heddle::onnx {
namespace {

using ::onnx::TensorProto;

constexpr const char *graph_name = "graph", *weights_name = "weights";
constexpr size_t least_bytes = 64;  // smaller tensors stay in the graph

void clear_data(TensorProto& tensor) {
  tensor.clear_raw_data();
  tensor.clear_float_data();
  tensor.clear_int32_data();
  tensor.clear_int64_data();
  tensor.clear_double_data();
  tensor.clear_uint64_data();
  tensor.clear_external_data();
  tensor.clear_data_location();
}

// Takes the data of a model's tensors, wherever they lay.
class Weights {
 public:
  explicit Weights(const Source& source) : source_(source) {}
  std::string take_bytes() { return std::move(bytes_); }

  void take(::onnx::GraphProto& graph) {
    for (TensorProto& tensor : *graph.mutable_initializer()) take(tensor);
    for (::onnx::NodeProto& node : *graph.mutable_node()) take(node);
  }
  void take(::onnx::NodeProto& node) {
    for (::onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) take(*attribute.mutable_t());
      if (attribute.has_g()) take(*attribute.mutable_g());
      for (TensorProto& tensor : *attribute.mutable_tensors()) take(tensor);
      for (::onnx::GraphProto& graph : *attribute.mutable_graphs()) take(graph);
    }
  }

 private:
  void take(TensorProto& tensor) {
    const HostTensor held = tensor_of(tensor, source_);
    if (!held.bytes) return;  // of a type that no op reads
    clear_data(tensor);
    const std::string data = packed(held.type, *held.bytes);
    if (data.size() < least_bytes) {
      tensor.set_raw_data(data);
      return;
    }
    bytes_.resize(round_up(bytes_.size(), part_alignment));
    set_external(tensor, weights_name, bytes_.size(), data.size());
    bytes_ += data;
  }

  const Source& source_;
  std::string bytes_;
};

void set_shapes(::onnx::GraphProto& graph, const InputShapes& shapes) {
  for (const auto& [name, sizes] : shapes) {
    ::onnx::ValueInfoProto* input = nullptr;
    for (::onnx::ValueInfoProto& candidate : *graph.mutable_input()) {
      if (candidate.name() == name) input = &candidate;
    }
    if (!input || !input->type().has_tensor_type())
      throw ValueError(fmt::format("[onnx] the model has no tensor '{}' among its inputs", name));
    ::onnx::TensorShapeProto& shape = *input->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.clear_dim();
    add_dimensions(shape, sizes);
  }
}

}  // namespace

bool is_package(const std::string& path) { return fs::path(path).extension() == ".heddle"; }

Package package_of(const std::string& model, const InputShapes& shapes) {
  const std::string file = read_text_file(model, "onnx");
  const ExternalData external{folder_of(model)};
  const Source source{model, external};
  ::onnx::ModelProto proto = proto_of(file, source);
  model_of(proto, source);  // says what is malformed
  set_shapes(*proto.mutable_graph(), shapes);
  Weights weights(source);
  weights.take(*proto.mutable_graph());
  for (::onnx::FunctionProto& function : *proto.mutable_functions()) {
    for (::onnx::NodeProto& node : *function.mutable_node()) weights.take(node);
  }
  Package made;
  if (!proto.SerializePartialToString(&made.graph)) source.fail("its graph is larger than protobuf writes (2 GiB)");
  made.weights = weights.take_bytes();
  made.metadata = {{"made_from", fs::path(model).filename()}, {"made_from_sha256", hex_of(sha256(file))}};
  return made;
}

std::vector<ModelPart> Package::parts() const {
  return {{.name = graph_name, .kind = PartKind::graph, .bytes = bytes_of(graph), .attributes = {{"format", "onnx"}}},
          {.name = weights_name, .kind = PartKind::weights, .bytes = bytes_of(weights)}};
}

void write_package(const std::string& model, const std::string& path, const InputShapes& shapes) {
  const Package made = package_of(model, shapes);
  write_model_parts(path, made.parts(), made.metadata);
}

ModelFile read_package(const std::string& path) {
  const ModelParts parts = ModelParts::map(path);
  parts.verify();
  const PartEntry& graph = parts.only(PartKind::graph);
  const auto format = graph.attributes.find("format");
  if (format == graph.attributes.end() || format->second != "onnx")
    throw IoError(fmt::format("[onnx] {}: its graph is not of ONNX", path));
  ExternalData external;
  if (const PartEntry* weights = parts.find(weights_name)) external = {"", weights_name, parts.bytes(*weights)};
  return parse_model(parts.text(graph), path, external);
}

}  // namespace heddle::onnx
