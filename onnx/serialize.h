// A model as the bytes of a .onnx file.
//
// Purpose: the reverse of parse_model(): graphs, their initializers and types, functions and opsets. Invariants: the
// same model gives the same bytes; names of documentation are left out. Errors: ValueError "[export] ..." for a model
// of 2 GiB and more, which no single file holds. Thread safety: pure functions.
#pragma once

#include <string>

#include "heddle/onnx/model_file.h"

namespace heddle::onnx {

std::string serialize(const ModelFile& model);

}  // namespace heddle::onnx
