#include "tests/support/random_graph.h"

#include <algorithm>
#include <random>

namespace heddle::test {
namespace {

class Builder {
 public:
  Builder(DeviceContext& device, uint64_t seed) : device_(device), random_(seed) {}

  RandomProgram run(int ops) {
    RandomProgram program;
    for (int i = 0; i < 4; ++i) program.parameters.push_back(leaf(shape()));
    pool_ = program.parameters;
    for (int i = 0; i < ops; ++i) {
      pool_.push_back(step());
      if (below(12) == 0) assign_one(program.parameters);
    }
    const size_t keep = 1 + below(4);
    for (size_t i = 0; i < keep; ++i)
      program.held.push_back(pool_[pool_.size() - 1 - below(std::min<size_t>(pool_.size(), 6))]);
    return program;
  }

 private:
  size_t below(size_t n) { return random_() % n; }

  Shape shape() {
    static const std::vector<Shape> shapes{{}, {1}, {7}, {3, 5}, {5, 3}, {4, 1}, {2, 3, 4}, {1, 6}, {6, 6}, {2, 1, 5}};
    return shapes[below(shapes.size())];
  }

  Tensor leaf(const Shape& s) {
    std::vector<float> data(static_cast<size_t>(s.numel()));
    for (float& x : data) x = static_cast<float>(static_cast<int>(below(4001)) - 2000) / 1000.0f;
    return Tensor::from_vector(data, s, &device_);
  }

  const Tensor& any() { return pool_[below(pool_.size())]; }

  // A new parameter value of the right shape, made from the old one and something pending.
  void assign_one(std::vector<Tensor>& parameters) {
    Tensor& p = parameters[below(parameters.size())];
    switch (below(3)) {
      case 0:
        p.assign(p * 0.5 + tanh(mean(any())));
        break;
      case 1:
        p.assign(flip_all(p));
        break;    // reads its own old value elsewhere
      default: {  // a swap, where shapes allow
        Tensor& q = parameters[below(parameters.size())];
        if (p.shape() != q.shape()) return;
        const Tensor old = p + 0.0;
        p.assign(q);
        q.assign(old);
      }
    }
  }

  Tensor flip_all(const Tensor& x) {
    std::vector<int> axes;
    for (int d = 0; d < x.rank(); ++d) axes.push_back(d);
    return axes.empty() ? x * -1.0 : flip(x, axes);
  }

  Tensor step() {
    switch (below(7)) {
      case 0:
        return unary(any());
      case 1:
      case 2:
        return binary(any(), any());
      case 3:
        return reduction(any());
      case 4:
        return movement(any());
      case 5:
        return product(any(), any());
      default:
        return row(any());
    }
  }

  Tensor unary(const Tensor& x) {
    switch (below(7)) {
      case 0:
        return tanh(x);
      case 1:
        return sigmoid(x);
      case 2:
        return relu(x);
      case 3:
        return -x;
      case 4:
        return exp(tanh(x));
      case 5:
        return abs(x) * 0.5;
      default:
        return where(x > 0.0, x, 0.1);
    }
  }

  static bool broadcastable(const Shape& a, const Shape& b) {
    for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
      const int64_t p = a[a.rank() - i], q = b[b.rank() - i];
      if (p != q && p != 1 && q != 1) return false;
    }
    return true;
  }

  Tensor binary(const Tensor& x, const Tensor& y) {
    if (!broadcastable(x.shape(), y.shape())) return tanh(x);
    switch (below(4)) {
      case 0:
        return (x + y) * 0.5;
      case 1:
        return x - y * 0.5;
      case 2:
        return tanh(x) * tanh(y);
      default:
        return maximum(x, y);
    }
  }

  Tensor reduction(const Tensor& x) {
    if (x.rank() == 0) return x * 0.5;
    std::vector<int> axes;
    for (int d = 0; d < x.rank(); ++d) {
      if (below(2)) axes.push_back(d);
    }
    if (axes.empty()) axes.push_back(static_cast<int>(below(static_cast<size_t>(x.rank()))));
    const bool keep = below(2) != 0;
    switch (below(3)) {
      case 0:
        return mean(x, axes, keep);
      case 1:
        return max(x, axes, keep);
      default:
        return tanh(sum(x, axes, keep));
    }
  }

  Tensor movement(const Tensor& x) {
    if (x.rank() == 0) return expand(reshape(x, Shape{1, 1}), {3, 2});
    const int axis = static_cast<int>(below(static_cast<size_t>(x.rank())));
    switch (below(7)) {
      case 0:
        return x.rank() > 1 ? transpose(x, 0, x.rank() - 1) : flip(x, {0});
      case 1:
        return reshape(x, Shape{x.numel()});
      case 2:
        return slice(x, axis, {.start = {}, .stop = {}, .step = below(2) ? -1 : 2});
      case 3: {
        std::vector<std::pair<int64_t, int64_t>> amounts(static_cast<size_t>(x.rank()));
        amounts[static_cast<size_t>(axis)] = {1, static_cast<int64_t>(below(2))};
        return x.numel() > 500 ? flip(x, {axis}) : pad(x, amounts, 0.25);
      }
      case 4:
        return x.numel() > 500 ? flip(x, {axis}) : concat({x, flip(x, {axis})}, axis);
      case 5: {
        const int64_t n = x.dim(axis);
        return take(x, Tensor::from_vector(std::vector<int32_t>{0, -1, static_cast<int32_t>(n / 2)}, {3}, &device_),
                    axis);
      }
      default:
        return unsqueeze(x, axis).rank() > 4 ? x * 1.5 : unsqueeze(x, axis);
    }
  }

  Tensor product(const Tensor& x, const Tensor& y) {
    if (x.rank() < 2 || x.numel() == 0) return x + 0.25;
    if (y.rank() == 2 && x.rank() == 2 && x.dim(1) == y.dim(0)) return tanh(matmul(x, y));
    return tanh(matmul(x, transpose(x)));  // reads its operand twice, once transposed
  }

  Tensor row(const Tensor& x) {
    if (x.rank() == 0) return x * 0.5;
    switch (below(3)) {
      case 0:
        return softmax(x);
      case 1:
        return log_softmax(x) * 0.2;
      default: {  // layer norm
        const Tensor centred = x - mean(x, {-1}, true);
        return centred * rsqrt(mean(square(centred), {-1}, true) + 0.1);
      }
    }
  }

  DeviceContext& device_;
  std::mt19937_64 random_;
  std::vector<Tensor> pool_;
};

}  // namespace

RandomProgram random_program(DeviceContext& device, uint64_t seed, int ops) { return Builder(device, seed).run(ops); }

}  // namespace heddle::test
