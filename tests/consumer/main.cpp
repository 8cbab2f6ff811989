// Learns y = 3x - 1 with the installed library. Exits 0 when it has learnt it.
#include <heddle/heddle.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

using namespace heddle;

int main(int argc, char** argv) try {
  set_default_device(argc > 1 ? argv[1] : "reference:0");
  manual_seed(1);
  nn::Linear model(1, 1);
  nn::SGD optimizer(model.parameters(), 0.1);
  const Tensor x = linspace(-1, 1, 16);
  const Tensor inputs = reshape(x, Shape{16, 1}), targets = 3.0 * inputs - 1.0;
  double loss_value = 0;
  for (int step = 0; step < 200; ++step) {
    const Tensor loss = mse_loss(model(inputs), targets);
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    if (step == 199) loss_value = loss.item();
  }
  const double weight = model.weight.item(), bias = model.bias.item();
  save_safetensors("model.safetensors", model.state_dict());
  const bool same = load_safetensors("model.safetensors").tensors.at("weight").item() == weight;
  std::printf("weight %.4f bias %.4f loss %.2e on %s\n", weight, bias, loss_value, default_device().id().c_str());
  const bool learnt = std::abs(weight - 3) < 1e-2 && std::abs(bias + 1) < 1e-2;
  return learnt && same && std::filesystem::exists("model.safetensors") ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const heddle::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
