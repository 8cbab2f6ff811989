#include <heddle/heddle.h>

#include <iostream>

using namespace heddle;

int main() {
  manual_seed(1);
  nn::Sequential model{nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 64), nn::ReLU(), nn::Linear(64, 10)};
  nn::Adam optimizer(model.parameters(), 1e-3);

  const data::Split digits = data::stroke_digits();  // or data::read_mnist_folder("path/to/mnist")
  data::Batcher batches(digits.train, {.batch = 32, .seed = 1});
  data::Batch batch;
  for (int step = 1; batches.next(batch); ++step) {
    const Tensor images = Tensor::from_vector(batch.images, {batch.size, 784});
    const Tensor labels = Tensor::from_vector(batch.labels, {batch.size});
    const Tensor loss = cross_entropy(model(images), labels);
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << '\n';  // looking is what waits
  }
  save_safetensors("model.safetensors", model.state_dict());
  std::cout << "trained on " << default_device().id() << '\n';
}
