// Small instances of every model of nn/models, as functions that can be written (deploy/compile_function.h).
#pragma once

#include <string>
#include <vector>

#include "heddle/deploy/write_compiled.h"

namespace heddle::test {

struct ZooModel {
  std::string name;
  FunctionsOn functions;
};

// Every call gives the same weights.
std::vector<ZooModel> zoo();
// A multilayer perceptron with buckets N=1 and N=3.
FunctionsOn two_buckets();

}  // namespace heddle::test
