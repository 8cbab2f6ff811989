// A module of one's own: a residual block with a learned gate, used in a network, saved and loaded.
#include <heddle/heddle.h>

#include <iostream>

using namespace heddle;

// x + gate * f(x): the gate starts at 0, so the block starts as the identity. Bachlechner et al. 2020, "ReZero is all
// you need".
class GatedBlock : public nn::Module {
 public:
  explicit GatedBlock(int64_t width)
      : Module("GatedBlock"),
        grow_(add("grow", nn::Linear(width, 4 * width))),
        shrink_(add("shrink", nn::Linear(4 * width, width))),
        gate_(add_parameter("gate", zeros({}))) {}

  Tensor forward(const Tensor& x) override { return x + gate_ * shrink_(gelu(grow_(x))); }

 private:
  nn::Linear grow_, shrink_;
  Tensor gate_;
};

nn::Sequential make_network() {
  return nn::Sequential{nn::Linear(2, 32), GatedBlock(32), GatedBlock(32), nn::Linear(32, 1)};
}

int main() {
  manual_seed(1);
  nn::Sequential network = make_network();
  std::cout << nn::summarize(network, zeros({1, 2})).str();

  // Which points lie in the ring 0.5 < |x| < 1?
  const Tensor x = uniform({512, 2}, -1.2, 1.2);
  const Tensor radius = sum(square(x), {1}, true);
  const Tensor inside = cast(logical_and(radius > 0.25, radius < 1.0), DType::f32);
  eval({x, inside});
  nn::Adam optimizer(network.parameters(), 3e-3);
  for (int step = 0; step < 300; ++step) {
    backward(bce_with_logits(network(x), inside));
    optimizer.step();
    optimizer.zero_grad();
  }
  const Tensor right = mean(cast((network(x) > 0.0) == (inside > 0.5), DType::f32));
  std::cout << "right " << right.item() << "  first gate " << network.state_dict().at("1.gate").item() << '\n';

  save_safetensors("ring.safetensors", network.state_dict());
  nn::Sequential again = make_network();
  again.load_state_dict(load_safetensors("ring.safetensors").tensors);
  std::cout << "loaded: " << (again(x).to_doubles() == network(x).to_doubles() ? "the same" : "another")
            << " network\n";
}
