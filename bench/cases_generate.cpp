// generate: seconds for a token of a GPT with a cache, as a program meets them: the step on the device, the host's
// part, and reading each token. Greedy, random weights, behind a prompt of one token; the figure is the time of LENGTH
// tokens / LENGTH.
#include <chrono>
#include <memory>

#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/nn/generate.h"

namespace heddle::bench {
namespace {

std::vector<double> seconds_per_token(const nn::GptOptions& options, DType dtype, DeviceContext& device,
                                      int repetitions) {
  Generator generator{.seed = 1};
  nn::Gpt model(options, {.device = device, .generator = &generator});
  model.eval();
  model.to(dtype);
  const auto decoder = nn::cached_decoder(model);
  const std::vector<int32_t> prompt = {0};
  std::vector<double> samples;
  for (int i = -1; i < repetitions; ++i) {  // the first plans and compiles
    const auto start = std::chrono::steady_clock::now();
    nn::generate(*decoder, prompt, {.tokens = options.context, .temperature = 0});
    if (i >= 0) samples.push_back(seconds_since(start) / static_cast<double>(options.context));
  }
  return samples;
}

Case parse_generate(const std::string& name, DType dtype) {
  const std::vector<int64_t> sizes = parse_sizes("generate", name, 5, "LENGTHxLAYERSxWIDTHxHEADSxVOCABULARY");
  const nn::GptOptions options{.vocabulary = sizes[4],
                               .context = sizes[0],
                               .layers = sizes[1],
                               .heads = sizes[3],
                               .width = sizes[2],
                               .dropout = 0};
  if (options.width % options.heads != 0)
    throw ValueError("[bench] generate case '" + name + "': the heads do not divide the width");
  Case c;
  c.tensor({options.vocabulary, options.width}, dtype);
  c.tensor({options.layers, 12 * options.width, options.width}, dtype);
  c.bound = Bound::none;
  c.host = [=](DeviceContext& device, int repetitions) {
    return seconds_per_token(options, dtype, device, repetitions);
  };
  return c;
}

}  // namespace

Family generate_family() {
  return {"generate",
          "LENGTHxLAYERSxWIDTHxHEADSxVOCABULARY",
          {"256x4x128x4x65", "512x6x384x6x65", "64x12x768x12x50257"},
          float_types,
          {},
          parse_generate};
}

}  // namespace heddle::bench
