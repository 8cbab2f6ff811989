// Models of other makers as functions of fixed sizes: what `heddle compile`, `heddle import` and `heddle run --verify`
// share.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/deploy/compile_function.h"
#include "heddle/io/write_model_parts.h"
#include "heddle/onnx/import.h"

namespace heddle::tools {

// Sizes by name: {"N": 8}.
using Bucket = std::map<std::string, int64_t>;
// "N=8,S=128"; "" for none.
std::string bucket_name(const Bucket& bucket);
// The buckets of texts such as "N=1,8,32": every choice of one size a text.
std::vector<Bucket> parse_buckets(const std::vector<std::string>& texts);

// The model on its device for inputs of those sizes; it keeps the model. ValueError for a size that has no number.
ModelFunction function_of(const onnx::Model& model, const std::vector<onnx::Port>& inputs, const Bucket& bucket);

// A part of kind `golden`; the bytes are the caller's.
ModelPart golden_part(const Golden& golden, const std::string& bucket, std::span<const uint8_t> bytes);

// Golden vectors from that device. "none" as `device`, or a model that cannot run there: nothing, the latter with a
// line on stderr.
std::optional<Golden> make_golden(const std::string& file, const std::string& device,
                                  const std::vector<onnx::Port>& inputs, const Bucket& bucket);

// Runs the golden vectors in a file on a device; how many there were. ValueError with the first difference.
size_t verify_golden(const std::string& file, const onnx::Model& model);

}  // namespace heddle::tools
