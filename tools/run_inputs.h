// The inputs of `heddle run`: those of one call, or of several calls one after another.
//
// Purpose: a name that is given several files makes as many calls; `each` takes the array of an input apart along its
// first axis, a call for each part; `carry` gives an input, from the second call on, what an output was in the call
// before. Errors: ValueError "[run] ..." for names that the model has not, numbers of calls that differ, and what the
// files hold. Thread safety: constant once made.
#pragma once
#if HEDDLE_HAS_ONNX

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "heddle/onnx/import.h"

namespace heddle::tools {

class RunInputs {
 public:
  // Texts as on the command line: NAME=FILE.npy, NAME, OUTPUT=INPUT.
  RunInputs(const onnx::Model& model, const std::vector<std::string>& files, const std::vector<std::string>& each,
            const std::vector<std::string>& carry);
  size_t calls() const { return calls_; }
  // In the order of the model's inputs; carried ones as they begin.
  std::vector<onnx::HostTensor> of(size_t call) const;
  // By number of input: the output that becomes it.
  const std::map<size_t, size_t>& carried() const { return carried_; }

 private:
  std::vector<std::vector<onnx::HostTensor>> values_;  // by input: one, or one for each call
  std::map<size_t, size_t> carried_;
  size_t calls_ = 1;
};

}  // namespace heddle::tools
#endif
