// The stored cases of values/*.safetensors, as generate.py describes them.
//
// Thread safety: read once, on first use.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/shape.h"

namespace heddle::tests {

struct StoredTensor {
  Shape shape;
  std::vector<double> values;
};

struct StoredCase {
  std::string op, name;  // "softmax 3 {"axis":0}"
  std::string kind;      // empty, or how it was derived: "empty", "nan", "infinite", "extreme" (generate.py)
  nlohmann::json args;
  std::vector<DType> in;
  std::vector<std::string> out;  // a dtype's name, or "any"
  std::vector<StoredTensor> inputs, outputs;
  std::map<size_t, StoredTensor> cotangents, gradients;  // by output, by input
};

// By function.
const std::map<std::string, std::vector<StoredCase>>& stored_cases();

}  // namespace heddle::tests
