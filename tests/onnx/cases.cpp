#include "tests/onnx/cases.h"

#include <algorithm>
#include <filesystem>

namespace heddle::tests {
namespace {

std::vector<OnnxCase> found() {
  std::vector<OnnxCase> cases;
  for (const char* group : {"node", "pytorch-converted", "pytorch-operator", "simple"}) {
    const std::filesystem::path folder = std::filesystem::path(HEDDLE_ONNX_DATA) / group;
    std::error_code error;
    std::vector<OnnxCase> here;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      here.push_back({group, entry.path().filename().string(), entry.path().string()});
    std::ranges::sort(here, {}, &OnnxCase::name);
    cases.insert(cases.end(), here.begin(), here.end());
  }
  return cases;
}

}  // namespace

const std::vector<OnnxCase>& onnx_cases() {
  static const std::vector<OnnxCase> cases = found();
  return cases;
}

const std::map<std::string, std::string>& not_run() {
  static const std::map<std::string, std::string> table = {
#define HEDDLE_NOT_RUN(name, reason) {name, reason},
#include "tests/onnx/not_run.inc"
#undef HEDDLE_NOT_RUN
  };
  return table;
}

const std::map<std::string, std::string>& not_run_on_reference() {
  static const std::map<std::string, std::string> table = {
#define HEDDLE_NOT_RUN(name, reason) {name, reason},
#include "tests/onnx/not_run_reference.inc"
#undef HEDDLE_NOT_RUN
  };
  return table;
}

}  // namespace heddle::tests
