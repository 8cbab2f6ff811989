// The rules that a model's graphs keep, and the order of their nodes.
//
// Purpose: names that are used are made, none is made twice (within a graph and what surrounds it), nothing depends on
// itself, functions do not call each other in a circle. Nodes are put in an order in which each stands after those that
// it reads. Errors: IoError "[onnx] path: ..." that names the node. Thread safety: pure.
#pragma once

#include <string>

#include "heddle/onnx/model_file.h"

namespace heddle::onnx {

void check(ModelFile& model, const std::string& path);

}  // namespace heddle::onnx
