// Models of other makers on the command line: what `heddle import` and `heddle run` share.
// Thread safety: none.
#pragma once

#include <string>

#include "heddle/data/array.h"
#include "heddle/onnx/import.h"
#include "tools/cli.h"

namespace heddle::tools {

// {"inputs", "outputs", "opset", "nodes", "unsupported"}.
Json report_json(const onnx::Report& report);
// "f32", "u16", "string": Heddle's names, where it has them.
std::string type_name(onnx::Type type);
// "(N, 3, 224, 224)", "any shape".
std::string sizes_of(const onnx::Port& port);
// 'N,3,H,W': numbers, or names of sizes that vary.
std::vector<onnx::Dimension> dimensions_of(const std::string& text);
// 'x=N,3,H,W': an input's sizes, numbers or names; gives the input. ValueError for an unknown one or another number of
// sizes.
const onnx::Port& set_shape(onnx::Report& report, const std::string& text);

// An array of a .npy file as an input of that type; integers in other ones that hold their values.
onnx::HostTensor host_tensor(const data::Array& array, const onnx::Port& port);
// For a .npy file: bf16 as f32, and integers that NumPy's readers here lack in the next wider type.
data::Array array_of(const onnx::HostTensor& tensor);
// A name as a file's: other characters than letters, digits, '.', '_' and '-' become '_'.
std::string file_name(const std::string& name);

}  // namespace heddle::tools
