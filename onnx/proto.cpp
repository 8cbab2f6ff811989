#include "heddle/onnx/proto.h"

#include <fmt/format.h>

#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/onnx/narrow_types.h"

namespace heddle::onnx {
namespace {

using ::onnx::TensorProto;

Shape shape_of(const TensorProto& tensor, const Source& source) {
  if (tensor.dims_size() > Shape::max_rank)
    source.fail(fmt::format("tensor '{}' has {} dimensions; {} is the most", tensor.name(), tensor.dims_size(),
                            Shape::max_rank));
  uint64_t elements = 1;
  bool empty = false;
  for (const int64_t dim : tensor.dims()) {
    if (dim < 0) source.fail(fmt::format("tensor '{}' has a dimension of {}", tensor.name(), dim));
    empty = empty || dim == 0;
    if (dim > 0 && elements > (uint64_t{1} << 62) / static_cast<uint64_t>(dim))
      source.fail(fmt::format("the dimensions of tensor '{}' overflow", tensor.name()));
    if (dim > 0) elements *= static_cast<uint64_t>(dim);
  }
  return Shape(std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end()));
}

ExternalPlace external_place(const TensorProto& tensor, const Source& source) {
  ExternalPlace place;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") {
      place.location = entry.value();
      continue;
    }
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const std::string& text = entry.value();
    if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
      source.fail(fmt::format("{} '{}' of tensor '{}' is no number of bytes", entry.key(), text, tensor.name()));
    (entry.key() == "offset" ? place.offset : place.length.emplace()) = std::stoull(text);
  }
  return place;
}

template <class Values>
void copy_values(std::string& bytes, size_t width, const Values& values) {
  for (int i = 0; i < values.size(); ++i) {
    const auto value = values.Get(i);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * width, &value, width);
  }
}

int listed(const TensorProto& tensor, Type type) {
  switch (type) {
    case Type::f32:
      return tensor.float_data_size();
    case Type::f64:
      return tensor.double_data_size();
    case Type::i64:
      return tensor.int64_data_size();
    case Type::u32:
    case Type::u64:
      return tensor.uint64_data_size();
    default:
      return tensor.int32_data_size();
  }
}

std::string listed_bytes(const TensorProto& tensor, Type type, uint64_t bytes) {
  std::string result(static_cast<size_t>(bytes), '\0');
  if (type == Type::f32)
    copy_values(result, 4, tensor.float_data());
  else if (type == Type::f64)
    copy_values(result, 8, tensor.double_data());
  else if (type == Type::i64)
    copy_values(result, 8, tensor.int64_data());
  else if (type == Type::u32 || type == Type::u64)
    copy_values(result, size_of(type), tensor.uint64_data());
  else
    copy_values(result, size_of(type), tensor.int32_data());
  return result;
}

}  // namespace

void set_external(TensorProto& tensor, const std::string& location, uint64_t offset, uint64_t length) {
  tensor.set_data_location(TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    ::onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
}

void add_dimensions(::onnx::TensorShapeProto& shape, const std::vector<Dimension>& sizes) {
  for (const Dimension& size : sizes) {
    ::onnx::TensorShapeProto::Dimension& dim = *shape.add_dim();
    if (size.size)
      dim.set_dim_value(*size.size);
    else if (!size.name.empty())
      dim.set_dim_param(size.name);
  }
}

void Source::fail(const std::string& what) const {
  throw IoError(fmt::format("[onnx] {}: {}", path, shortened(what, 400)));
}

::onnx::ModelProto proto_of(std::string_view bytes, const Source& source) {
  check_wire(bytes, WireRoot::model, source.path);
  ::onnx::ModelProto proto;
  parse_into(proto, bytes, source);
  if (!proto.has_graph()) source.fail("holds no graph");
  return proto;
}

HostTensor tensor_of(const TensorProto& tensor, const Source& source) {
  HostTensor result{static_cast<Type>(tensor.data_type()), shape_of(tensor, source), nullptr};
  if (!is_held(result.type)) return result;  // what uses it is reported
  if (tensor.has_segment()) source.fail(fmt::format("tensor '{}' is one of several segments", tensor.name()));
  const auto elements = static_cast<uint64_t>(result.shape.numel());
  if (elements > (uint64_t{1} << 60) / size_of(result.type))
    source.fail(fmt::format("tensor '{}' claims {} elements", tensor.name(), elements));
  const uint64_t bytes = bytes_in_file(result.type, elements);
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    const ExternalPlace place = external_place(tensor, source);
    const std::string data = read_external(source.external, place, bytes,
                                           fmt::format("{}: tensor '{}'", source.path, shortened(tensor.name())));
    result.bytes = std::make_shared<const std::string>(unpacked(result.type, data, static_cast<size_t>(elements)));
    return result;
  }
  const uint64_t there = tensor.has_raw_data()
                             ? tensor.raw_data().size()
                             : static_cast<uint64_t>(listed(tensor, result.type)) * size_of(result.type);
  if (there != bytes)
    source.fail(
        fmt::format("tensor '{}' of {} takes {} bytes and has {}", tensor.name(), result.shape.str(), bytes, there));
  const std::string data = tensor.has_raw_data() ? tensor.raw_data() : listed_bytes(tensor, result.type, bytes);
  result.bytes = std::make_shared<const std::string>(unpacked(result.type, data, static_cast<size_t>(elements)));
  return result;
}

}  // namespace heddle::onnx
