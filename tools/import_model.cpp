#if HEDDLE_HAS_ONNX
#include "tools/import_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"

namespace heddle::tools {
namespace {

Json port_json(const onnx::Port& port) {
  Json shape;
  if (port.shape) {
    shape = Json::array();
    for (const onnx::Dimension& d : *port.shape)
      shape.push_back(d.size ? Json(*d.size) : d.name.empty() ? Json() : Json(d.name));
  }
  const char* kinds[] = {"tensor", "sequence", "optional", "other"};
  Json json{{"name", port.name}, {"dtype", type_name(port.type)}, {"shape", shape}};
  if (port.kind != onnx::PortKind::tensor) json["kind"] = kinds[static_cast<int>(port.kind)];
  return json;
}

onnx::Dimension dimension_of(const std::string& text) {
  const bool digits = !text.empty() && text.size() < 16 && text.find_first_not_of("0123456789") == std::string::npos;
  if (digits) return {std::stoll(text), ""};
  return {{}, text == "?" ? "" : text};
}

}  // namespace

std::string type_name(onnx::Type type) {
  switch (type) {
    case onnx::Type::u16:
      return "u16";
    case onnx::Type::i16:
      return "i16";
    case onnx::Type::u32:
      return "u32";
    case onnx::Type::u64:
      return "u64";
    default:
      return onnx::is_held(type) ? std::string(name_of(onnx::storage(type))) : onnx::name_of(type);
  }
}

std::string sizes_of(const onnx::Port& port) {
  if (!port.shape) return "any shape";
  std::vector<std::string> sizes;
  for (const onnx::Dimension& d : *port.shape) sizes.push_back(d.str());
  return fmt::format("({})", fmt::join(sizes, ", "));
}

Json report_json(const onnx::Report& report) {
  Json inputs = Json::array(), outputs = Json::array(), opsets = Json::array(), unsupported = Json::array();
  for (const onnx::Port& port : report.inputs) inputs.push_back(port_json(port));
  for (const onnx::Port& port : report.outputs) outputs.push_back(port_json(port));
  for (const auto& [domain, version] : report.opsets) opsets.push_back({{"domain", domain}, {"version", version}});
  for (const onnx::UnsupportedOp& u : report.unsupported)
    unsupported.push_back(
        {{"op", u.op}, {"count", u.nodes.size()}, {"nodes", u.nodes}, {"opset", u.opset}, {"needs", u.needs}});
  return {{"inputs", inputs},      {"outputs", outputs},         {"opset", opsets},
          {"nodes", report.nodes}, {"unsupported", unsupported}, {"host_sized", report.waits}};
}

std::vector<onnx::Dimension> dimensions_of(const std::string& text) {
  std::vector<onnx::Dimension> shape;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (comma > at || comma < text.size()) shape.push_back(dimension_of(text.substr(at, comma - at)));
    at = comma + 1;
  }
  return shape;
}

const onnx::Port& set_shape(onnx::Report& report, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw ValueError(fmt::format("[import] --shape '{}' is not NAME=SIZE,SIZE,...", text));
  const std::string name = text.substr(0, equals);
  const auto port = std::ranges::find(report.inputs, name, &onnx::Port::name);
  if (port == report.inputs.end()) throw ValueError(fmt::format("[import] --shape: no input is called '{}'", name));
  const std::vector<onnx::Dimension> shape = dimensions_of(text.substr(equals + 1));
  bool fits = !port->shape || port->shape->size() == shape.size();
  for (size_t i = 0; fits && port->shape && i < shape.size(); ++i)
    fits = !(*port->shape)[i].size || !shape[i].size || *(*port->shape)[i].size == *shape[i].size;
  if (!fits) throw ValueError(fmt::format("[import] --shape '{}' does not fit the model's input", text));
  port->shape = shape;
  return *port;
}

onnx::HostTensor host_tensor(const data::Array& array, const onnx::Port& port) {
  const onnx::Type given = onnx::type_of(array.dtype);
  const auto bytes =
      std::make_shared<const std::string>(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  const onnx::HostTensor tensor{given, array.shape, bytes};
  if (port.type == given || !onnx::is_held(port.type) || onnx::is_float(port.type) || onnx::is_float(given))
    return tensor;
  const std::vector<int64_t> values = tensor.ints();
  for (const int64_t value : values) {
    if (onnx::wrap(value, port.type) != value || (port.type == onnx::Type::u64 && value < 0))
      throw ValueError(fmt::format("[run] input {} holds {}, which is no {}", port.name, value, type_name(port.type)));
  }
  return onnx::HostTensor::of_ints(port.type, array.shape, values);
}

data::Array array_of(const onnx::HostTensor& tensor) {
  const onnx::Type type = tensor.type;
  const DType dtype = type == onnx::Type::bf16 ? DType::f32 : onnx::storage(type);
  if (type == onnx::Type::u64) {
    for (const int64_t value : tensor.ints()) {
      if (value < 0) throw ValueError("[run] an output of u64 holds values beyond those of a .npy file's i64");
    }
  }
  const std::string bytes = type == onnx::Type::bf16
                                ? *onnx::HostTensor::of_reals(onnx::Type::f32, tensor.shape, tensor.reals()).bytes
                                : tensor.stored();
  data::Array array{dtype, tensor.shape, std::vector<std::byte>(bytes.size())};
  if (!bytes.empty()) std::memcpy(array.bytes.data(), bytes.data(), bytes.size());
  return array;
}

std::string file_name(const std::string& name) {
  std::string result = name;
  for (char& c : result) {
    const bool kept =
        (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!kept) c = '_';
  }
  return result;
}

}  // namespace heddle::tools
#endif
