// An ONNX model as a `.heddle` file (io/model_parts.h), and back.
//
// Purpose: one file in place of a model and the files of its weights. The part "graph" is the model as protobuf, which
// other readers of ONNX understand too; its tensors of 64 bytes and more are external data called "weights", the part
// of that name, each at a multiple of 64 bytes. Invariants: a package is written whole or not at all, the same model
// gives the same bytes, and reading opens no other file. Errors: IoError "[onnx] path: ..." for what cannot be read,
// IoError "[model_parts] ..." for a damaged package, ValueError for sizes of inputs that there are not. Thread safety:
// pure functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heddle/io/write_model_parts.h"
#include "heddle/onnx/model_file.h"

namespace heddle::onnx {

// Sizes of inputs, by name, in place of those that the model names.
using InputShapes = std::map<std::string, std::vector<Dimension>>;

// The parts of such a file, in memory.
struct Package {
  std::string graph, weights;
  PartAttributes metadata;
  // They live as long as this.
  std::vector<ModelPart> parts() const;
};
Package package_of(const std::string& model, const InputShapes& shapes = {});
void write_package(const std::string& model, const std::string& path, const InputShapes& shapes = {});
ModelFile read_package(const std::string& path);

// Whether a file's name ends as a package's does.
bool is_package(const std::string& path);

}  // namespace heddle::onnx
