// Fine-tuning: a network that tells ten digits apart learns to tell odd from even ones by a new last layer; what it
// learned before stays as it is.
#include <heddle/heddle.h>

#include <functional>
#include <iostream>

using namespace heddle;

// Trains what is not frozen; `target` says what is to be answered for a digit.
void train(nn::Module& model, const data::ImageSet& set, int steps, const std::function<int32_t(int32_t)>& target) {
  nn::AdamW optimizer(model.parameters(), 2e-3);
  data::Batcher batches(set, {.batch = 64, .seed = 1});
  data::Batch batch;
  for (int step = 1; step <= steps && batches.next(batch); ++step) {
    for (int32_t& label : batch.labels) label = target(label);
    const Tensor images = Tensor::from_vector(batch.images, {batch.size, 1, set.rows, set.columns});
    const Tensor loss = cross_entropy(model(images), Tensor::from_vector(batch.labels, {batch.size}));
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    if (step % 25 == 0) std::cout << "step " << step << "  loss " << loss.item() << std::endl;
  }
}

int main() {
  manual_seed(1);
  const data::Split digits = data::stroke_digits();
  const nn::LeNetOptions ten{.stages = {8, 16}, .hidden = 32, .classes = 10};
  nn::LeNet teacher(ten);
  train(teacher, digits.train, 100, [](int32_t digit) { return digit; });
  save_safetensors("digits.safetensors", teacher.state_dict());

  nn::LeNetOptions two = ten;
  two.classes = 2;
  nn::LeNet model(two);
  std::cout << nn::load_matching(model, load_safetensors("digits.safetensors").tensors, {"classifier.4.*"}).str();
  nn::freeze(model, "*");
  nn::unfreeze(model, "classifier.4.*");
  model.eval();  // the statistics of batch norms stay as well
  std::cout << nn::summarize(model, zeros({1, 1, 28, 28})).str();
  train(model, digits.train, 100, [](int32_t digit) { return digit % 2; });

  const Tensor before = teacher.state_dict().at("features.0.0.weight"),
               after = model.state_dict().at("features.0.0.weight");
  std::cout << "largest change of the first convolution: " << max(abs(after - before)).item() << '\n';
}
