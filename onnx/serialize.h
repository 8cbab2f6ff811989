// A model as the bytes of a .onnx file.
//
// Purpose: the reverse of parse_model(): graphs, their initializers and types, functions and opsets. Initializers may
// lie in a file beside it, as external data. Invariants: the same model gives the same bytes; what a file documents
// itself with is left out. Errors: ValueError "[export] ..." for a model of 2 GiB and more without external data.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/io/atomic_file.h"
#include "heddle/onnx/model_file.h"

namespace heddle::onnx {

// The file beside the model's: initializers of 1 KiB and more, each at a multiple of 64 bytes. The parts point into the
// model.
struct ExternalFile {
  std::string name;
  std::vector<FilePart> parts = {};
  uint64_t bytes = 0;
};

// `external`, unless null, is filled.
std::string serialize(const ModelFile& model, ExternalFile* external = nullptr);
// Whether a model's initializers are more than one file holds.
bool needs_external_file(const ModelFile& model);

}  // namespace heddle::onnx
