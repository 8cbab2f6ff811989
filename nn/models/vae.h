// Autoencoder and Vae: networks that describe their input in few numbers and draw it again.
//
// Purpose: (N, ...) with `in` numbers an example -> logits (N, in) of the same, through `latent` numbers. Both halves
// are Mlp's, "encoder" and "decoder". The Vae's encoder gives mean and logarithm of the variance of a normal
// distribution from which the latent numbers are drawn; forward() in eval() takes the mean. Hinton and Salakhutdinov
// 2006, "Reducing the dimensionality of data with neural networks"; Kingma and Welling 2013, "Auto-encoding variational
// Bayes". Invariants: modules are handles (nn/module.h). Errors: ValueError for sizes, ShapeError for inputs that do
// not fit. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/nn/models/mlp.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

struct AutoencoderOptions {
  int64_t in = 784;
  std::vector<int64_t> hidden = {400};  // of the encoder; the decoder's are the same from the last to the first
  int64_t latent = 20;
  Activation activation = Activation::relu;
};

class Autoencoder : public Module {
 public:
  explicit Autoencoder(const AutoencoderOptions& options = {}, const ParameterOptions& parameters = {});
  Tensor encode(const Tensor& x) { return encoder_(x); }  // (N, latent)
  Tensor decode(const Tensor& z) { return decoder_(z); }  // logits (N, in); sigmoid() makes them grey values
  Tensor forward(const Tensor& x) override { return decode(encode(x)); }

 private:
  Mlp encoder_, decoder_;
};

class Vae : public Module {
 public:
  explicit Vae(const AutoencoderOptions& options = {}, const ParameterOptions& parameters = {});

  struct Latent {
    Tensor mean, log_variance;  // (N, latent)
  };
  Latent encode(const Tensor& x);
  // mean + sqrt(variance) * noise.
  Tensor draw(const Latent& latent, Generator* generator = nullptr) const;
  Tensor decode(const Tensor& z) { return decoder_(z); }
  // Images in [0, 1] (count, in) from latent numbers of a standard normal distribution; null: the model's own
  // generator.
  Tensor sample(int64_t count, Generator* generator = nullptr);
  Tensor forward(const Tensor& x) override;

  struct Loss {
    Tensor total;           // reconstruction + beta * divergence
    Tensor reconstruction;  // binary cross entropy, summed over the numbers of an example, mean over the examples
    Tensor divergence;  // of the latent distribution from the standard normal one: -1/2 sum(1 + log v - m^2 - v), mean
                        // over the examples
  };
  // The negative evidence lower bound of x in [0, 1], with one draw of the latent numbers, in eval() as well: with
  // their mean it would be no bound; a beta other than 1 is Higgins et al. 2017, "beta-VAE".
  Loss loss(const Tensor& x, double beta = 1, Generator* generator = nullptr);

 private:
  Generator* generator_;
  int64_t latent_;
  Mlp encoder_, decoder_;
};

}  // namespace heddle::nn
