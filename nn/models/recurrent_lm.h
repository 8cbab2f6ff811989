// RecurrentLm: a language model of LSTM or GRU layers.
//
// Purpose: tokens (N, T) -> logits (N, T, vocabulary) of the next token: embedding ("encoder"), recurrent layers
// ("rnn"), linear layer ("decoder"), with dropout between them, under the names of PyTorch's word_language_model. The
// states of the layers can be carried from one piece of a text to the next. Zaremba et al. 2014, "Recurrent neural
// network regularization"; tied weights: Press and Wolf 2017, "Using the output embedding to improve language models".
// Invariants: modules are handles (nn/module.h). Errors: ValueError for sizes, ShapeError for tokens and states that do
// not fit. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/nn/embedding.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/parameter_options.h"
#include "heddle/nn/recurrent.h"

namespace heddle::nn {

enum class RecurrentCellKind : uint8_t { lstm, gru };

struct RecurrentLmOptions {
  int64_t vocabulary = 256;
  int64_t width = 128;  // of the embedding
  int64_t hidden = 256;
  int64_t layers = 2;
  RecurrentCellKind cell = RecurrentCellKind::lstm;
  double dropout = 0;
  bool tied = false;  // the decoder's weight is the encoder's: width and hidden must be equal
};

class RecurrentLm : public Module {
 public:
  explicit RecurrentLm(const RecurrentLmOptions& options, const ParameterOptions& parameters = {});

  // state: h, and of an LSTM c, each (layers, N, hidden).
  struct Result {
    Tensor logits;
    std::vector<Tensor> state;
  };
  // Tokens (N, T), i32 or i64. state: where the text before them ended; empty: zeros. Detach a state before it enters
  // the next step's loss.
  Result run(const Tensor& tokens, std::vector<Tensor> state = {});
  Tensor forward(const Tensor& tokens) override;
  const RecurrentLmOptions& options() const { return options_; }

 private:
  RecurrentLmOptions options_;
  Embedding encoder_;
  Recurrent rnn_;
  Linear decoder_;
  Dropout drop_;
};

}  // namespace heddle::nn
