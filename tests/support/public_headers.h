// The functions on tensors that the public headers declare, read from their text.
//
// Purpose: the oracle for lists of functions (autograd/catalogue.inc, tests of every function): a function that is
// declared and not listed fails a test. Thread safety: pure but for reading files.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace heddle::tests {

struct Declared {
  std::string header;                           // "core/functions/math/math.h"
  std::vector<std::vector<std::string>> forms;  // of each overload, the parameters that hold tensors, by name
  std::vector<bool> lists;                      // of each overload: the first of them is a list of tensors
};

// By name: functions of namespace heddle in the headers of core/functions that take or give tensors, and the rows of
// elementwise.inc. A header that says "Internal to core" is not the user's; operators, functions of nested namespaces
// and members are none.
std::map<std::string, Declared> declared_functions(const std::string& source_dir);

}  // namespace heddle::tests
