#include "tests/onnx/cases.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>

namespace heddle::tests {
namespace {

std::string data_folder() {
  const char* other = std::getenv("HEDDLE_ONNX_CASES");
  return other != nullptr ? other : HEDDLE_ONNX_DATA;
}

std::vector<OnnxCase> found() {
  std::vector<OnnxCase> cases;
  for (const char* group : {"node", "pytorch-converted", "pytorch-operator", "simple"}) {
    const std::filesystem::path folder = std::filesystem::path(data_folder()) / group;
    std::error_code error;
    std::vector<OnnxCase> here;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      here.push_back({group, entry.path().filename().string(), entry.path().string()});
    std::ranges::sort(here, {}, &OnnxCase::name);
    cases.insert(cases.end(), here.begin(), here.end());
  }
  return cases;
}

struct NotRun {
  const char *release, *name, *why;  // "": of all releases
};

// By name, the rows of the data that are there; 1.17 brought this case.
std::map<std::string, std::string> of_release(std::initializer_list<NotRun> rows) {
  const bool newer = std::filesystem::exists(std::filesystem::path(data_folder()) / "node/test_affine_grid_2d");
  const std::string here = newer ? "1.17" : "1.12";
  std::map<std::string, std::string> result;
  for (const NotRun& row : rows) {
    if (*row.release == '\0' || row.release == here) result.emplace(row.name, row.why);
  }
  return result;
}

}  // namespace

const std::vector<OnnxCase>& onnx_cases() {
  static const std::vector<OnnxCase> cases = found();
  return cases;
}

bool cases_of_others() { return std::getenv("HEDDLE_ONNX_CASES") != nullptr; }

const std::map<std::string, std::string>& not_run() {
  static const std::map<std::string, std::string> table = of_release({
#define HEDDLE_NOT_RUN(name, reason) {"", name, reason},
#define HEDDLE_NOT_RUN_IN(release, name, reason) {release, name, reason},
#include "tests/onnx/not_run.inc"
  });
  return table;
}

const std::map<std::string, std::string>& not_run_on_reference() {
  static const std::map<std::string, std::string> table = of_release({
#include "tests/onnx/not_run_reference.inc"
#undef HEDDLE_NOT_RUN
#undef HEDDLE_NOT_RUN_IN
  });
  return table;
}

}  // namespace heddle::tests
