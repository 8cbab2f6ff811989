// heddle compile --targets c: a model as a folder of C99 sources.
// Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "tools/cli.h"
#include "tools/compile_model.h"

namespace heddle::tools {

struct CompileC {
  std::string file, folder, golden;
  std::vector<Bucket> buckets;
};

// Writes the folder; what was written, for --json. ValueError with all that cannot be written, before anything is.
Json compile_c(const CompileC& options, const std::vector<onnx::Port>& inputs);

}  // namespace heddle::tools
