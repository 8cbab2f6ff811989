#include "heddle/nn/models/vae.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

// `numbers` for each of the latent ones.
Mlp make_encoder(const AutoencoderOptions& o, int64_t numbers, const ParameterOptions& p) {
  check_sizes("autoencoder", {{"in", o.in}, {"latent", o.latent}});
  return Mlp({.in = o.in, .hidden = o.hidden, .out = numbers * o.latent, .activation = o.activation}, p);
}

Mlp make_decoder(const AutoencoderOptions& o, const ParameterOptions& p) {
  return Mlp({.in = o.latent, .hidden = {o.hidden.rbegin(), o.hidden.rend()}, .out = o.in, .activation = o.activation},
             p);
}

}  // namespace

Autoencoder::Autoencoder(const AutoencoderOptions& o, const ParameterOptions& p)
    : Module("Autoencoder"),
      encoder_(add("encoder", make_encoder(o, 1, p))),
      decoder_(add("decoder", make_decoder(o, p))) {}

Vae::Vae(const AutoencoderOptions& o, const ParameterOptions& p)
    : Module("Vae"),
      generator_(p.generator),
      latent_(o.latent),
      encoder_(add("encoder", make_encoder(o, 2, p))),
      decoder_(add("decoder", make_decoder(o, p))) {}

Vae::Latent Vae::encode(const Tensor& x) {
  const Tensor both = encoder_(x);  // (N, 2 latent)
  return {slice(both, 1, {.stop = latent_}), slice(both, 1, {.start = latent_})};
}

Tensor Vae::draw(const Latent& latent, Generator* generator) const {
  return latent.mean + exp(latent.log_variance * 0.5) *
                           normal(latent.mean.shape(), 0, 1, &latent.mean.device(), generator ? generator : generator_);
}

Tensor Vae::sample(int64_t count, Generator* generator) {
  DeviceContext& device = parameters().front().device();
  const Shape shape = parameter_shape("Vae", {count, latent_});
  return sigmoid(decode(normal(shape, 0, 1, &device, generator ? generator : generator_)));
}

Tensor Vae::forward(const Tensor& x) {
  const Latent latent = encode(x);
  return decode(training() ? draw(latent) : latent.mean);
}

Vae::Loss Vae::loss(const Tensor& x, double beta, Generator* generator) {
  const Tensor target = Flatten()(x);
  const Latent latent = encode(target);
  const Tensor logits = decode(draw(latent, generator));
  const double examples = static_cast<double>(x.dim(0));
  Loss loss;
  loss.reconstruction = bce_with_logits(logits, target, Reduction::sum) / examples;
  loss.divergence = sum(square(latent.mean) + exp(latent.log_variance) - latent.log_variance - 1.0) * (0.5 / examples);
  loss.total = loss.reconstruction + loss.divergence * beta;
  return loss;
}

}  // namespace heddle::nn
