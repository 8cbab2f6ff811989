// Models of tests as the library parses them, and ports that many of them have.
#pragma once

#include <string>

#include "heddle/onnx/parse.h"
#include "tests/onnx/wire.h"

namespace heddle::tests {

inline onnx::ModelFile parsed(const std::string& bytes) { return onnx::parse_model(bytes, "net.onnx", {"."}); }

namespace ports {
inline const Wire x = port("x", f32, {2}), y = port("y", f32, {2});
}

}  // namespace heddle::tests
