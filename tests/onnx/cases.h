// The cases of Debian's libonnx-testdata, and those that are expected not to run.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace heddle::tests {

struct OnnxCase {
  std::string group, name, folder;  // "node", "test_abs", the folder with model.onnx
};

// All cases, in order; empty where the package is not installed. HEDDLE_ONNX_CASES names another folder of the same
// layout in its place (bench/onnx_cases.py).
const std::vector<OnnxCase>& onnx_cases();
// Whether it does: then nothing is expected not to run.
bool cases_of_others();
// By "group/name", why a case does not run or gives other values.
const std::map<std::string, std::string>& not_run();
// The same of the reference device alone.
const std::map<std::string, std::string>& not_run_on_reference();

}  // namespace heddle::tests
