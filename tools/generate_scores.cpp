#include "tools/generate_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/data/numpy.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

// (tokens, vocabulary).
Tensor logits_of(nn::Module& model, std::span<const int32_t> tokens, DeviceContext& device) {
  const auto length = static_cast<int64_t>(tokens.size());
  return squeeze(model(Tensor::from_host(tokens, {1, length}, &device)), 0);
}

}  // namespace

void print_perplexity(nn::Module& model, std::span<const int32_t> tokens, int64_t window, bool json,
                      DeviceContext& device) {
  const NoGradScope no_grad;
  double total = 0;
  size_t count = 0;
  for (size_t first = 0; first + 1 < tokens.size(); first += static_cast<size_t>(window)) {
    const auto own = tokens.subspan(first, std::min(static_cast<size_t>(window), tokens.size() - first));
    if (own.size() < 2) break;
    const auto scored = static_cast<int64_t>(own.size()) - 1;
    const Tensor logits = logits_of(model, own, device);
    const Tensor losses = cross_entropy(slice(logits, 0, {.start = 0, .stop = scored}),
                                        Tensor::from_host(own.subspan(1), {scored}, &device));
    total += losses.item() * static_cast<double>(scored);
    count += own.size() - 1;
  }
  if (count == 0) throw ValueError("[generate] --perplexity needs a prompt of at least two tokens");
  const double perplexity = std::exp(total / static_cast<double>(count));
  if (json)
    print_json({{"event", "done"},
                {"perplexity", perplexity},
                {"scored_tokens", count},
                {"prompt", std::vector<int32_t>(tokens.begin(), tokens.end())},
                {"device", device.id()}});
  else
    fmt::print("perplexity {:.4f} of {} tokens\n", perplexity, count);
}

void write_logits(nn::Module& model, std::span<const int32_t> tokens, const std::string& path, bool json,
                  DeviceContext& device) {
  const NoGradScope no_grad;
  if (tokens.empty()) throw ValueError("[generate] --logits needs a prompt of at least one token");
  const Tensor logits = cast(logits_of(model, tokens, device), DType::f32);
  data::write_npy(path, data::Array::of(logits.to_vector<float>(), logits.shape()));
  if (json)
    print_json({{"event", "done"},
                {"logits", path},
                {"prompt", std::vector<int32_t>(tokens.begin(), tokens.end())},
                {"device", device.id()}});
  else
    fmt::print("{}: logits of {} tokens over {}\n", path, logits.dim(0), logits.dim(1));
}

}  // namespace heddle::tools
