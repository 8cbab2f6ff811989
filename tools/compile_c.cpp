#if HEDDLE_HAS_ONNX
#include "tools/compile_c.h"

#include <optional>
#include <utility>

#include "heddle/core/base/path.h"
#include "heddle/deploy/c_device.h"
#include "heddle/deploy/c_model.h"

namespace heddle::tools {

Json compile_c(const CompileC& o, const std::vector<onnx::Port>& inputs) {
  onnx::LoadOptions options;
  options.device = &c_device();
  const onnx::Model model = onnx::load(o.file, options);
  WeightStore weights;
  CModel written;
  written.name = c_name(fs::path(fs::path(o.file).stem()).string());
  for (const Bucket& bucket : o.buckets) {
    ModelFunction function = function_of(model, inputs, bucket);
    written.entries.push_back({bucket_name(bucket), compile_function(c_device(), function, weights), std::nullopt});
  }
  written.weights = weights.bytes();
  check_c(written);
  GoldenMaker maker(o.file, o.golden);
  for (size_t i = 0; i < o.buckets.size(); ++i) written.entries[i].golden = maker.make(inputs, o.buckets[i]);
  const std::vector<CFile> files = c_files(written);
  write_c_files(o.folder, files);
  Json names = Json::array();
  for (const CFile& file : files) names.push_back(file.name);
  return {{"name", written.name}, {"files", names}};
}

}  // namespace heddle::tools
#endif
