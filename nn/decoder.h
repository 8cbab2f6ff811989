// Decoders: language models one token at a time.
//
//   const auto decoder = nn::cached_decoder(gpt);
//   Tensor logits = decoder->read(prompt);           // (B, T) -> (B, vocabulary)
//   logits = decoder->step(argmax(logits, -1));      // one more token, and so on
//
// Purpose: what nn/generate.h works on, whatever the model. A cached decoder keeps what it computed for earlier tokens
// in tensors of fixed shapes, updated in place: every step is the same program (core/compile/compile.h), with no new
// kernels and no new plans per position. Invariants: after read(x) and steps with a, b, ... the logits are the model's
// for [x, a, b, ...] at its last position, but for rounding. Values stay on the device. Errors: ValueError for a model
// in training mode, ShapeError for tokens that do not fit. Thread safety: none.
#pragma once

#include <memory>

#include "heddle/nn/models/gpt.h"
#include "heddle/nn/models/llama.h"
#include "heddle/nn/models/recurrent_lm.h"

namespace heddle::nn {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual int64_t vocabulary() const = 0;
  // The longest sequence, 0: any. A step behind the last position is not looked at: read() has to begin again with
  // fewer tokens.
  virtual int64_t context() const = 0;
  virtual DeviceContext& device() const = 0;
  // Forgets what was there and reads tokens (B, T), i32 or i64, T > 0: the logits (B, vocabulary) of the next one.
  virtual Tensor read(const Tensor& tokens) = 0;
  // One token for each row, (B): the logits of the next one.
  virtual Tensor step(const Tensor& tokens) = 0;
  // Row i goes on from where row order[i] was; order (B) i32.
  virtual void reorder(const Tensor& order) = 0;
};
using DecoderPtr = std::unique_ptr<Decoder>;

// Gpt with a cache of keys and values, `batch` sequences of up to the model's context.
DecoderPtr cached_decoder(const Gpt& model, int64_t batch = 1);
// The same of a Llama; `context` above 0: of so many positions at most, which is what the cache takes memory for.
DecoderPtr cached_decoder(const Llama& model, int64_t batch = 1, int64_t context = 0);
// The state of the layers is all there is to keep.
DecoderPtr cached_decoder(const RecurrentLm& model, int64_t batch = 1);
// Reads everything again for each token, in lengths rounded up to multiples of 64: for models without a cache, and to
// measure what one gains. step() looks at the tokens on the host.
DecoderPtr uncached_decoder(const Gpt& model, int64_t batch = 1);
DecoderPtr uncached_decoder(const Llama& model, int64_t batch = 1);

}  // namespace heddle::nn
