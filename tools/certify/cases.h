// What is certified: for each body of shaders/ the calls that reach it, with the tiles that its picker chooses for a
// device, and a training step of each recipe.
//
// Invariants: names of bodies are those of `heddle kernel`, names of recipes those of `heddle train`; every body of the
// build has a case (tests/cli/certify_test.cpp). Thread safety: none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"

namespace heddle::tools::certify {

struct Case {
  std::string subject;                      // a body or a recipe
  std::string name;                         // "1024x1024x1024 f32"
  std::function<void(DeviceContext&)> run;  // records and evaluates on that device
  bool recipe = false;                      // its kernels are all of the step's, a body's those of the body
};

const std::vector<Case>& all_cases();
// Of those subjects; all where the list is empty. ValueError, with a suggestion, for another name.
std::vector<const Case*> find_cases(const std::vector<std::string>& subjects);

}  // namespace heddle::tools::certify
