// Where the numbers of a training step cease to be finite: the layer that is named when a run ends by NaN or infinity.
//
// Purpose: hooks look at what each module gives, in the order of the calls, while the step's loss is computed once
// more. Invariants: nothing is read before it is asked for; hooks go with their watch. Errors: those of the device.
// Thread safety: none.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle::train {

class OutputWatch {
 public:
  // Of the network and all modules below it.
  explicit OutputWatch(nn::Module& network);
  ~OutputWatch();
  OutputWatch(const OutputWatch&) = delete;
  OutputWatch& operator=(const OutputWatch&) = delete;
  // Path of the first module that gave a NaN or an infinity; a part comes before the whole. Empty: none did.
  std::string first() const;

 private:
  std::vector<std::pair<nn::Module, size_t>> hooks_;
  nn::NamedTensors finite_;  // by path: bool, rank 0
};

// Name of the first floating tensor with a NaN or an infinity; empty: none has one.
std::string first_not_finite(const nn::NamedTensors& tensors);
// The same of the last one whose sum of squares is not finite.
std::string last_without_norm(const nn::NamedTensors& tensors);

}  // namespace heddle::train
