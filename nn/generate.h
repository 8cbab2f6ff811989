// Generation: a language model goes on with a prompt.
//
//   const auto tokens = nn::generate(*nn::cached_decoder(gpt), tokenizer->encode("ROMEO:"), {.tokens = 200,
//   .temperature = 0.8, .top_k = 40, .seed = 1});
//
// The prompt is read at once, then each token is one compiled step that draws the next one on the device; the host
// reads a token while the next is computed. When the model's context is full, the last half of it is read again as a
// prompt. Invariants: the same seed gives the same tokens on a device (Philox; across devices as far as rounding lets
// logits be alike). Errors: ValueError for options that cannot be meant, an empty prompt and tokens beyond the
// vocabulary. Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/nn/decoder.h"

namespace heddle::nn {

struct Sampling {
  double temperature = 1;  // 0: the most likely token
  int64_t top_k = 0;       // only the k most likely; 0: all. Fan et al. 2018, "Hierarchical neural story generation"
  double top_p = 1;  // only the most likely that together have this probability. Holtzman et al. 2020, "The curious
                     // case of neural text degeneration"
};
// Logits (B, vocabulary) to a token each, (B) i64. Logits that tie with the last one kept are kept.
Tensor sample(const Tensor& logits, const Sampling& how, Generator* generator = nullptr,
              Caller caller = Caller::current());

struct GenerateOptions {
  int64_t tokens = 100;  // at most
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 0;
  std::vector<int32_t> stop = {};  // tokens that end it; the one met is not part of the result
  bool compiled = true;            // false: each step is recorded anew
};
// What follows the prompt. on_token hears of each token as it comes, and ends generation by false.
std::vector<int32_t> generate(Decoder& decoder, std::span<const int32_t> prompt, const GenerateOptions& options,
                              const Callable<bool(int32_t token)>& on_token = {});

struct BeamOptions {
  int64_t beams = 4;
  int64_t tokens = 100;
  double length_penalty = 1;  // a result's score is its log-probability / length^penalty
  std::vector<int32_t> stop = {};
};
struct Beam {
  std::vector<int32_t> tokens;  // without the stop token
  double score = 0;
};
// The likeliest continuations, best first. The decoder's batch is the number of beams. Prompt and tokens together must
// fit the context: ValueError.
std::vector<Beam> beam_search(Decoder& decoder, std::span<const int32_t> prompt, const BeamOptions& options);

// The part of a prompt that a decoder can read: its end.
std::span<const int32_t> readable(const Decoder& decoder, std::span<const int32_t> prompt);

}  // namespace heddle::nn
