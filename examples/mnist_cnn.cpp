// A convolutional network on digits: MNIST's folder as an argument, or drawn digits without one.
#include <heddle/heddle.h>

#include <iostream>

using namespace heddle;

double accuracy(nn::Module& model, const data::ImageSet& set) {
  const NoGradScope no_grad;
  model.eval();
  data::Batcher batches(set, {.batch = 500, .shuffle = false, .drop_last = false});
  data::Batch batch;
  double right = 0;
  while (batches.next(batch)) {
    const Tensor images = Tensor::from_vector(batch.images, {batch.size, 1, set.rows, set.columns});
    const Tensor labels = Tensor::from_vector(batch.labels, {batch.size});
    right += sum(cast(argmax(model(images), 1) == labels, DType::f32)).item();
  }
  model.train();
  return right / static_cast<double>(set.size());
}

int main(int argc, char** argv) {
  manual_seed(1);
  const data::Split digits = argc > 1 ? data::read_mnist_folder(argv[1]) : data::stroke_digits();
  nn::LeNet model({.height = digits.train.rows, .width = digits.train.columns});
  std::cout << nn::summarize(model, zeros({1, 1, digits.train.rows, digits.train.columns})).str();
  nn::AdamW optimizer(model.parameters(), 2e-3);

  for (int epoch = 1; epoch <= 2; ++epoch) {
    data::Batcher batches(digits.train, {.batch = 64, .seed = static_cast<uint64_t>(epoch)});
    data::Batch batch;
    for (int step = 1; batches.next(batch); ++step) {
      const Tensor images = Tensor::from_vector(batch.images, {batch.size, 1, digits.train.rows, digits.train.columns});
      const Tensor labels = Tensor::from_vector(batch.labels, {batch.size});
      const Tensor loss = cross_entropy(model(images), labels);
      backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      if (step % 100 == 0) std::cout << "epoch " << epoch << "  step " << step << "  loss " << loss.item() << std::endl;
    }
    std::cout << "epoch " << epoch << "  test accuracy " << accuracy(model, digits.test) << std::endl;
  }
}
