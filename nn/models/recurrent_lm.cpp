#include "heddle/nn/models/recurrent_lm.h"

#include <fmt/format.h>

#include "heddle/core/device/context.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

const RecurrentLmOptions& checked(const RecurrentLmOptions& o) {
  check_sizes("RecurrentLm", {{"vocabulary", o.vocabulary}, {"width", o.width}, {"hidden", o.hidden}});
  if (o.tied && o.width != o.hidden)
    throw ValueError(
        fmt::format("[RecurrentLm] tied weights need an embedding as wide as the hidden state: width {}, hidden {}",
                    o.width, o.hidden));
  return o;
}

Embedding make_encoder(const RecurrentLmOptions& o, const ParameterOptions& p) {
  Embedding encoder(o.vocabulary, o.width, {.device = p.device, .generator = p.generator});
  init::uniform(encoder.weight, -0.1, 0.1, p.generator);
  return encoder;
}

// PyTorch's example has the same first values: uniform in +-0.1, biases 0.
Linear make_decoder(const RecurrentLmOptions& o, const Tensor& table, const ParameterOptions& p) {
  if (o.tied) return Linear(table, zeros({o.vocabulary}, DType::f32, p.device));
  Linear decoder(o.hidden, o.vocabulary, {.device = p.device, .generator = p.generator});
  init::uniform(decoder.weight, -0.1, 0.1, p.generator);
  init::zeros(decoder.bias);
  return decoder;
}

Recurrent make_layers(const RecurrentLmOptions& o, const ParameterOptions& p) {
  const RecurrentOptions how{
      .layers = o.layers, .dropout = o.dropout, .batch_first = true, .device = p.device, .generator = p.generator};
  if (o.cell == RecurrentCellKind::gru) return GRU(o.width, o.hidden, how);
  return LSTM(o.width, o.hidden, how);
}

void check_tokens(const Tensor& tokens) {
  if (tokens.rank() != 2)
    throw ShapeError(fmt::format("[RecurrentLm] tokens are {}; expected (batch, length)", tokens.shape().str()));
}

}  // namespace

RecurrentLm::RecurrentLm(const RecurrentLmOptions& o, const ParameterOptions& p)
    : Module("RecurrentLm"),
      options_(checked(o)),
      encoder_(add("encoder", make_encoder(o, p))),
      rnn_(add("rnn", make_layers(o, p))),
      decoder_(add("decoder", make_decoder(o, encoder_.weight, p))),
      drop_(add("drop", Dropout(o.dropout, {.generator = p.generator}))) {}

RecurrentLm::Result RecurrentLm::run(const Tensor& tokens, std::vector<Tensor> state) {
  check_tokens(tokens);
  const Tensor embedded = drop_(encoder_(tokens));
  // States stay f32 where weights are stored in 16 bits.
  const Recurrent::Result result =
      rnn_.run(cast(embedded, promote(embedded.dtype(), DType::f32)), std::move(state));  // (N, T, hidden)
  return {decoder_(drop_(result.states)), result.last};
}

// Nobody asks for the states: the layers are called as a module, so that hooks and summaries see them.
Tensor RecurrentLm::forward(const Tensor& tokens) {
  check_tokens(tokens);
  return decoder_(drop_(rnn_(drop_(encoder_(tokens)))));
}

}  // namespace heddle::nn
