// A kernel of your own, written at run time: Lambert's W, the inverse of w e^w, which no library function gives. It is
// used like a built-in one: on every device, fused with what stands around it, differentiated to any order, and trained
// through.
#include <heddle/heddle.h>

#include <cmath>
#include <cstdio>

using namespace heddle;

int main() {
  // One element: statements in the dialect of shaders/README.md. T is the arithmetic type of the inputs.
  const UserKernel lambert_w = elementwise_kernel({
      .name = "lambert_w",
      .inputs = {"x"},
      .outputs = {"w"},
      .text = R"(
        w = x < 3.0 ? log1p(x) : log(x) - log(log(max(x, 3.0)));
        for (int i = 0; i < 20; ++i) {  // Halley's iteration
          T e = exp(w), f = w * e - x;
          T step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
          w = w - step;
          if (abs(step) <= 1e-7 * abs(w)) { break; }
        })",
      .iterations = 20,
      // For reference:0, which computes in double precision on the host.
      .host =
          [](std::span<const double> x, std::span<double> w) {
            w[0] = std::log1p(x[0]);
            for (int i = 0; i < 100; ++i) w[0] -= (w[0] * std::exp(w[0]) - x[0]) / (std::exp(w[0]) * (w[0] + 1));
          },
      // dW/dx = 1 / (e^W (1 + W)), as recorded code: so there are derivatives of every order.
      .vjp = [](const UserCall& c) { return std::vector{c.cotangents[0] / (exp(c.outputs[0]) * (1 + c.outputs[0]))}; },
  });

  const Tensor x = Tensor::from_vector(std::vector<float>{0.5f, 1, 2.7182818f, 10}, {4});
  const auto total = [&](const Tensor& t) { return sum(lambert_w(t)); };
  std::printf("on %s\n", x.device().id().c_str());
  std::printf("W(x)   %s\n", lambert_w(x).str().c_str());
  std::printf("W'(x)  %s\n", grad(total)(x).str().c_str());
  std::printf("W''(x) %s\n", hvp(total, x, ones_like(x)).str().c_str());

  // Find y with W(y) = 1.5 by gradient descent; the answer is 1.5 e^1.5 = 6.7225. The whole step is replayed.
  Tensor y = Tensor::from_vector(std::vector<float>{1}, {1}).set_requires_grad();
  auto step = compile([&] {
    const Tensor loss = sum(square(lambert_w(y) - 1.5));
    y.assign(y - 8.0 * grad(loss, y));
    return loss;
  });
  for (int i = 0; i < 200; ++i) step();
  std::printf("y = %.4f, loss %.1e\n", y.item(), step().item());

  // Mistakes have the line of the text.
  try {
    elementwise_kernel({.name = "broken", .inputs = {"x"}, .text = "T a = x * x;\nout = a + b;"})(x);
  } catch (const UserError& error) {  // reference:0 takes no text
    std::printf("%s\n", error.what());
  } catch (const UserKernelError& error) {
    std::printf("line %d: %s\n", error.line(), error.what());
  }
}
