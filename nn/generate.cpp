#include "heddle/nn/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/random/distributions.h"
#include "heddle/core/graph/future.h"

namespace heddle::nn {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Tokens whose logits are at least as large as the smallest kept one.
Tensor keep_top_k(const Tensor& logits, int64_t k) {
  const Tensor values = topk(logits, k).values;  // (B, k), descending
  return where(logits < slice(values, -1, {.start = k - 1, .stop = k}), -infinity, logits);
}

Tensor keep_top_p(const Tensor& logits, double p) {
  const Tensor values = sort(logits, -1, true).values;
  const Tensor before = cumsum(softmax(values), -1, true);  // what more likely ones have together
  const Tensor least = min(where(before < p, values, infinity), {-1}, true);
  return where(logits < least, -infinity, logits);
}

void check(const Sampling& how) {
  if (!(how.temperature >= 0 && std::isfinite(how.temperature)))
    throw ValueError(fmt::format("[generate] the temperature is {}, expected a number from 0 on", how.temperature));
  if (how.top_k < 0)
    throw ValueError(fmt::format("[generate] top_k is {}, expected at least 1, or 0 for all", how.top_k));
  if (!(how.top_p > 0 && how.top_p <= 1))
    throw ValueError(fmt::format("[generate] top_p is {}, expected more than 0 and at most 1", how.top_p));
}

void check_prompt(const Decoder& decoder, std::span<const int32_t> prompt, int64_t tokens) {
  if (prompt.empty()) throw ValueError("[generate] the prompt is empty; a model goes on with at least one token");
  if (tokens < 0 || tokens > INT32_MAX) {
    throw ValueError(fmt::format("[generate] {} tokens cannot be generated; expected 0 to 2^31 - 1", tokens));
  }
  const auto bad = std::ranges::find_if(prompt, [&](int32_t t) { return t < 0 || t >= decoder.vocabulary(); });
  if (bad != prompt.end())
    throw ValueError(
        fmt::format("[generate] token {} of the prompt is not among the model's {}; is this the model's tokenizer?",
                    *bad, decoder.vocabulary()));
}

// The same tokens for every row.
Tensor rows_of(std::span<const int32_t> tokens, int64_t rows, DeviceContext& device) {
  const auto length = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> all;
  for (int64_t r = 0; r < rows; ++r) all.insert(all.end(), tokens.begin(), tokens.end());
  return Tensor::from_batch<int32_t>(all, {rows, length}, &device);
}

}  // namespace

Tensor sample(const Tensor& logits, const Sampling& how, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  check(how);
  if (how.temperature == 0) return argmax(logits, -1);
  Tensor scaled = logits / how.temperature;
  if (how.top_k > 0 && how.top_k < logits.dim(-1)) scaled = keep_top_k(scaled, how.top_k);
  if (how.top_p < 1) scaled = keep_top_p(scaled, how.top_p);
  return categorical(scaled, -1, generator);
}

std::span<const int32_t> readable(const Decoder& decoder, std::span<const int32_t> prompt) {
  const auto longest = static_cast<size_t>(decoder.context());
  return longest > 0 && prompt.size() > longest ? prompt.last(longest) : prompt;
}

std::vector<int32_t> generate(Decoder& decoder, std::span<const int32_t> prompt, const GenerateOptions& options,
                              const Callable<bool(int32_t)>& on_token) {
  const NoGradScope no_grad;
  const Sampling how{options.temperature, options.top_k, options.top_p};
  check(how);
  check_prompt(decoder, prompt, options.tokens);
  Generator generator{.seed = options.seed};
  const auto record = [&](const Tensor& token) { return sample(decoder.step(token), how, &generator); };
  const auto compiled = compile(record, {.name = "generate"});
  const auto read = [&](std::span<const int32_t> tokens) {
    return sample(decoder.read(rows_of(tokens, 1, decoder.device())), how, &generator);
  };

  std::vector<int32_t> all(prompt.begin(), prompt.end());
  if (options.tokens == 0) return {};
  const std::span<const int32_t> first = readable(decoder, prompt);
  auto held = static_cast<int64_t>(first.size());  // by the decoder
  Tensor token = read(first);
  for (int64_t made = 1;; ++made) {
    const ValueFuture value = read_async(token);
    const bool is_full = decoder.context() > 0 && held == decoder.context();
    if (made < options.tokens && !is_full) {  // computed while the host looks at the one before
      token = options.compiled ? compiled(token) : record(token);
      ++held;
    }
    const auto now = static_cast<int32_t>(value.item());
    if (std::ranges::find(options.stop, now) != options.stop.end()) break;
    all.push_back(now);
    if ((on_token && !on_token(now)) || made == options.tokens) break;
    if (is_full) {
      held = std::max<int64_t>(decoder.context() / 2, 1);
      token = read(std::span<const int32_t>(all).last(static_cast<size_t>(held)));
    }
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(prompt.size()), all.end()};
}

}  // namespace heddle::nn
