// The table of ops as a page: docs/onnx.md.
// Thread safety: pure.
#pragma once

#include <string>

namespace heddle::onnx {

std::string op_page();

}  // namespace heddle::onnx
