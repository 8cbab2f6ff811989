// A look at the bytes of an ONNX file before protobuf reads them.
//
// Purpose: protobuf makes objects of a few hundred bytes from two bytes of a file, recurses as deep as messages are
// nested, and takes what lengths say; here the messages, elements and depth are counted first, in constant memory.
// Errors: IoError "[onnx] path: ..." for what is cut off, too deep, or would take more memory than twice the file and
// 64 MiB. Thread safety: pure.
#pragma once

#include <string>
#include <string_view>

namespace heddle::onnx {

inline constexpr int max_nesting = 64;  // graphs within graphs

enum class WireRoot { model, tensor };
void check_wire(std::string_view bytes, WireRoot root, const std::string& path);

}  // namespace heddle::onnx
