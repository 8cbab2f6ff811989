// Models of other makers as functions of fixed sizes: what `heddle compile`, `heddle import` and `heddle run --verify`
// share.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/deploy/write_compiled.h"
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

// Golden vectors from a device.
class GoldenMaker {
 public:
  // "none" as `device`: there are none.
  GoldenMaker(std::string file, std::string device) : file_(std::move(file)), id_(std::move(device)) {}
  // Nothing, with a line on stderr, where the model cannot run there with those sizes.
  std::optional<Golden> make(const std::vector<onnx::Port>& inputs, const Bucket& bucket);

 private:
  std::string file_, id_;
  std::optional<onnx::Model> model_;  // loaded by the first call
};

// Runs the golden vectors in a file on a device; how many there were. ValueError with the first difference.
size_t verify_golden(const std::string& file, const onnx::Model& model);

}  // namespace heddle::tools
