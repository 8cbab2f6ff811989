// TableNet: a multilayer perceptron on numbers and categories.
//
// Purpose: features (N, numbers + categories) f32, as data/table.h encodes rows -> (N, out). Each category's number
// chooses a row of an embedding, whose width follows from how many categories there are; numbers and embeddings go side
// by side into the perceptron. Names: embedding.0.weight, ..., mlp.0.weight, ... Invariants: modules are handles
// (nn/module.h). Errors: ValueError for sizes, ShapeError for features that do not fit. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/nn/embedding.h"
#include "heddle/nn/models/mlp.h"

namespace heddle::train {

struct TableNetOptions {
  int64_t numbers = 0;
  std::vector<int64_t> categories = {};  // how many numbers each can have
  std::vector<int64_t> hidden = {128, 64};
  int64_t out = 1;
  double dropout = 0;
};

class TableNet final : public nn::Module {
 public:
  explicit TableNet(const TableNetOptions& options, const nn::ParameterOptions& parameters = {});
  Tensor forward(const Tensor& features) override;

 private:
  int64_t numbers_;
  std::vector<nn::Embedding> embeddings_;
  nn::Mlp mlp_;
};

}  // namespace heddle::train
