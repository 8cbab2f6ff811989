// From the bytes of a file to a ModelFile, and of a single TensorProto.
//
// Purpose: what a file says, by protobuf's messages (proto.h). What the file claims is compared with what it holds
// before memory is taken (wire.h); tensors whose data lie in other files are read from the model's folder alone
// (external.h). Errors: IoError "[onnx] path: ..." for a file that cannot be read or is malformed. Thread safety: pure
// functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "heddle/onnx/external.h"
#include "heddle/onnx/model_file.h"

namespace heddle::onnx {

// `path` is what errors name.
ModelFile parse_model(std::string_view bytes, const std::string& path, const ExternalData& external);
ModelFile read_model(const std::string& path);
// Where the external data of a model in that file lie.
std::string folder_of(const std::string& path);
// The file of one tensor, as ONNX's test data are kept; `name` is set to the tensor's.
HostTensor parse_tensor(std::string_view bytes, const std::string& path, std::string* name = nullptr);
HostTensor read_tensor(const std::string& path, std::string* name = nullptr);

}  // namespace heddle::onnx
