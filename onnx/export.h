// ONNX export: a function of tensors as a .onnx file.
//
//   onnx::save("net.onnx", [&](const std::vector<Tensor>& x) { return std::vector{model(x[0])}; },
//              {{"x", DType::f32, {{{}, "N"}, {3}, {224}, {224}}}}, {.names = model.state_dict()});
//
// Purpose: the function is recorded as compile() would record it, over stand-ins without values, and its operations are
// written as ONNX's, opset 17 to 21. A size may have a name in place of a number (N: any batch): the file then holds
// for all of them. Tensors that the function reads are initializers, under the names of ExportOptions::names. Models
// are to be in evaluation mode; what they draw at random has no op. A row that ONNX lacks is a function of the file, in
// domain "heddle", whose body other readers understand and which onnx::load() gives back as the row; with `functions`
// false its nodes stand in the place of the call. Indices out of range and division of integers by 0 are errors in most
// readers. Weights of 2 GiB and more lie beside the file, in one called as it with ".data" behind its name, as ONNX's
// external data. Invariants: what is imported again records the operations that were exported, so that its bits are
// theirs (but initializers that are one number throughout are folded, which may round otherwise); the same graph and
// weights give the same bytes; each file is written whole or not at all, the weights' first. Errors: ValueError
// "[export] ..." that names every operation without a row with its count, or sizes that the recorded graph cannot
// follow, before anything is written; IoError for the files. Thread safety: as recording.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/onnx/model_file.h"

namespace heddle::onnx {

inline constexpr int first_exported_opset = 17, last_exported_opset = 21;

struct ExportInput {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Dimension> shape;  // numbers, and names of sizes that vary: three at most
};

using ExportFunction = Callable<std::vector<Tensor>(const std::vector<Tensor>&)>;

struct ExportOptions {
  int opset = first_exported_opset;
  bool functions = true;
  bool external_data = false;                          // also where one file would do
  std::vector<std::string> outputs = {};               // names; none: "y", or "y0", "y1", ...
  std::map<std::string, Tensor> names = {};            // of parameters and buffers, such as Module::state_dict()
  std::map<std::string, std::string> properties = {};  // stored with the model
  DeviceContext* device = nullptr;                     // of the stand-ins; null: the default one
};

ModelFile export_model(const ExportFunction& function, const std::vector<ExportInput>& inputs,
                       const ExportOptions& options = {});

struct ExportReport {
  size_t nodes = 0, functions = 0;
  uint64_t parameters = 0;                 // elements of initializers that have names
  uint64_t bytes = 0, external_bytes = 0;  // of the file, and of the one beside it
  std::vector<Port> inputs, outputs;
};
ExportReport save(const std::string& path, const ExportFunction& function, const std::vector<ExportInput>& inputs,
                  const ExportOptions& options = {});

}  // namespace heddle::onnx
