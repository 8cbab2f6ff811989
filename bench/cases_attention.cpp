// attention: causal self-attention, fused, beside Heddle's own unfused graph (matmul, mask, softmax, matmul) as a peer.
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "autograd/autograd.h"
#include "bench/bench.h"
#include "core/graph/functions.h"

namespace heddle::bench {
namespace {

using Inputs = std::array<Tensor, 3>;

// (B, H, T, D) as views of a projection (B, T, 3, H, D), as a transformer has them.
Inputs pieces(const Tensor& projection) {
  const Tensor x = permute(projection, {2, 0, 3, 1, 4});
  const auto piece = [&](int64_t i) { return squeeze(slice(x, 0, {i, i + 1}), 0); };
  return {piece(0), piece(1), piece(2)};
}

Tensor fused(const Inputs& in) {
  AttentionOptions options;
  options.causal = true;
  return scaled_dot_product_attention(in[0], in[1], in[2], options);
}

Tensor unfused(const Inputs& in) {
  const int64_t t = in[0].dim(2);
  DeviceContext* device = &in[0].device();
  const Tensor position = arange(0, static_cast<double>(t), 1, DType::i32, device);
  const Tensor hidden = unsqueeze(position, 0) > unsqueeze(position, 1);
  const Tensor scores = matmul(in[0], transpose(in[1])) * (1 / std::sqrt(static_cast<double>(in[0].dim(3))));
  return matmul(softmax(where(hidden, -std::numeric_limits<double>::infinity(), scores)), in[2]);
}

// The result, or the gradient of the projection for a given cotangent.
std::vector<Tensor> results(Tensor (*attention)(const Inputs&), const Tensor& projection, const Tensor& cotangent) {
  const Tensor y = attention(pieces(projection));
  if (!cotangent.defined()) return {y};
  return {grad(y, projection, cotangent)};
}

Case parse(const std::string& name, DType dtype) {
  constexpr std::string_view form = "BxHxTxD or grad:BxHxTxD";
  const bool gradient = name.starts_with("grad:");
  const std::vector<int64_t> size = parse_sizes("attention", gradient ? name.substr(5) : name, 4, form);
  const int64_t b = size[0], h = size[1], t = size[2], d = size[3];
  Case c;
  c.tensor({b, t, 3, h, d}, dtype, gradient ? 2 : 1).tensor({b, h, t, d}, dtype);
  // Two products forward and five more for the gradient, half of each hidden.
  c.flops = (gradient ? 7.0 : 2.0) * static_cast<double>(b * h) * static_cast<double>(t) * static_cast<double>(t) * static_cast<double>(d);
  c.bound = Bound::compute;
  c.tolerance = dtype == DType::f32 ? 1e-4 : dtype == DType::f16 ? 1e-2 : 6e-2;
  c.make = [=](const Environment& env) {
    Tensor x = random_tensor({b, t, 3, h, d}, dtype, 1, env.device);
    const Tensor g = gradient ? random_tensor({b, h, t, d}, dtype, 2, env.device) : Tensor();
    if (gradient) x.set_requires_grad();
    Workload w;
    w.run = [=] { return results(fused, x, g); };
    if (env.wants("unfused")) {
      PeerCall peer;
      peer.peer = "unfused";
      const auto latest = std::make_shared<std::vector<Tensor>>();
      peer.call = [=, device = &env.device] {
        *latest = results(unfused, x, g);
        eval(*latest);
        device->synchronize();
      };
      peer.result = [=] { return (*latest)[0].to_vector<float>(); };
      w.peers.push_back(std::move(peer));
    }
    return w;
  };
  return c;
}

}  // namespace

Family attention_family() {
  return {"attention", "BxHxTxD (causal, forward) or grad:BxHxTxD (forward and backward)", {"4x8x1024x64", "grad:4x8x1024x64", "1x8x333x80"},
          {DType::f32, DType::f16, DType::bf16}, {"unfused"}, parse};
}

}  // namespace heddle::bench
