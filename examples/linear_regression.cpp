// Linear regression: y = 2 a - 3 b + 1 and noise, found again by gradient descent.
#include <heddle/heddle.h>

#include <iostream>

using namespace heddle;

int main() {
  manual_seed(1);
  const Tensor x = uniform({256, 2}, -1, 1);
  const Tensor truth = Tensor::from_vector<float>({2, -3}, {2, 1});
  const Tensor y = matmul(x, truth) + 1.0 + normal({256, 1}, 0, 0.05);
  eval({x, y});  // drawn once

  nn::Linear line(2, 1);
  nn::SGD optimizer(line.parameters(), 0.3);
  for (int step = 0; step < 100; ++step) {
    backward(mse_loss(line(x), y));
    optimizer.step();
    optimizer.zero_grad();
  }
  std::cout << "weight " << line.weight.str() << "  bias " << line.bias.str() << "  loss "
            << mse_loss(line(x), y).item() << '\n';
}
