// What the modules that know protobuf share: a message from the bytes of a file, a HostTensor from a message, and
// pieces of messages that are written.
//
// Errors: IoError "[onnx] path: ..." for what is malformed. Thread safety: pure functions.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx.pb.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/onnx/external.h"
#include "heddle/onnx/model_file.h"
#include "heddle/onnx/wire.h"

namespace heddle::onnx {

// The file that is read: what errors name, and where data of its tensors lie.
struct Source {
  const std::string& path;
  const ExternalData& external;
  [[noreturn]] void fail(const std::string& what) const;
};

// What Debian's onnx.proto does not name stays among the unknown fields.
template <class Message>
void parse_into(Message& message, std::string_view bytes, const Source& source) {
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream in(&array);
  in.SetRecursionLimit(4 * max_nesting + 16);
  in.SetTotalBytesLimit(std::numeric_limits<int>::max());
  if (!message.ParsePartialFromCodedStream(&in) || !in.ConsumedEntireMessage())
    source.fail("not an ONNX file, or a damaged one");
}

// Of a file's bytes, compared with what they hold (wire.h).
::onnx::ModelProto proto_of(std::string_view bytes, const Source& source);
// In plain structures, checked (check.h).
ModelFile model_of(const ::onnx::ModelProto& proto, const Source& source);

// With its bytes, unless its type is not held (types.h).
HostTensor tensor_of(const ::onnx::TensorProto& tensor, const Source& source);

// The tensor's data lie in that file.
void set_external(::onnx::TensorProto& tensor, const std::string& location, uint64_t offset, uint64_t length);
void add_dimensions(::onnx::TensorShapeProto& shape, const std::vector<Dimension>& sizes);

}  // namespace heddle::onnx
