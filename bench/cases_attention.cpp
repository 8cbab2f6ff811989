// attention: causal self-attention, fused, beside Heddle's own unfused graph (matmul, mask, softmax, matmul) as a peer.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "bench/bench.h"
#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

using Inputs = std::array<Tensor, 3>;

// (B, H, T, D) as views of a projection (B, T, 3, H, D), as a transformer has them.
Inputs pieces(const Tensor& projection) {
  const Tensor x = permute(projection, {2, 0, 3, 1, 4});
  const auto piece = [&](int64_t i) { return squeeze(slice(x, 0, {i, i + 1}), 0); };
  return {piece(0), piece(1), piece(2)};
}

// Queries (B, H, 1, D) after a cache (B, J, T, D) of keys and values, J of H heads each.
Inputs cache(const std::vector<Tensor>& x) { return {x[0], x[1], x[2]}; }

Tensor fused(const Inputs& in) {
  AttentionOptions options;
  options.causal = true;
  return scaled_dot_product_attention(in[0], in[1], in[2], options);
}

// One query sees all keys; those of a group of heads are rows of one product.
Tensor decoded(const Inputs& in) {
  const Shape stacked{in[0].dim(0), in[1].dim(1), in[0].dim(1) / in[1].dim(1), in[0].dim(3)};
  const Tensor scores =
      matmul(reshape(in[0], stacked), transpose(in[1])) * (1 / std::sqrt(static_cast<double>(in[0].dim(3))));
  return reshape(matmul(softmax(scores), in[2]), in[0].shape());
}

Tensor unfused(const Inputs& in) {
  if (in[0].dim(2) == 1) return decoded(in);
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

// Adds the unfused graph as a peer.
void add_unfused(const Environment& env, Workload& w, std::function<std::vector<Tensor>()> results_of) {
  if (!env.wants("unfused")) return;
  PeerCall peer;
  peer.peer = "unfused";
  const auto latest = std::make_shared<std::vector<Tensor>>();
  peer.call = [=, device = &env.device] {
    *latest = results_of();
    eval(*latest);
    device->synchronize();
  };
  peer.result = [=] { return (*latest)[0].to_vector<float>(); };
  w.peers.push_back(std::move(peer));
}

double attention_tolerance(DType dtype) { return dtype == DType::f32 ? 1e-4 : dtype == DType::f16 ? 1e-2 : 6e-2; }

constexpr std::string_view attention_form = "BxHxTxD, grad:BxHxTxD or decode:BxHxJxTxD";

Case parse_decode(const std::string& name, DType dtype) {
  const std::vector<int64_t> size = parse_sizes("attention", name.substr(7), 5, attention_form);
  const int64_t b = size[0], h = size[1], j = size[2], t = size[3], d = size[4];
  if (j == 0 || h % j != 0)
    throw ValueError(fmt::format("[bench] {} query heads are no multiple of {} key heads", h, j));
  Case c;
  c.tensor({b, h, 1, d}, dtype, 2).tensor({b, j, t, d}, dtype);
  c.flops = 4.0 * static_cast<double>(b * h * t * d);
  c.tensor({b, j, t, d}, dtype);
  c.bound = Bound::read;
  c.tolerance = attention_tolerance(dtype);
  c.make = [=](const Environment& env) {
    std::vector<Tensor> x;
    const Shape shapes[] = {{b, h, 1, d}, {b, j, t, d}, {b, j, t, d}};
    for (const Shape& shape : shapes)
      x.push_back(random_tensor(shape, dtype, static_cast<uint32_t>(x.size() + 1), env.device));
    Workload w;
    w.run = [=] { return std::vector<Tensor>{fused(cache(x))}; };
    add_unfused(env, w, [=] { return std::vector<Tensor>{unfused(cache(x))}; });
    return w;
  };
  return c;
}

Case parse_attention(const std::string& name, DType dtype) {
  if (name.starts_with("decode:")) return parse_decode(name, dtype);
  const bool gradient = name.starts_with("grad:");
  const std::vector<int64_t> size = parse_sizes("attention", gradient ? name.substr(5) : name, 4, attention_form);
  const int64_t b = size[0], h = size[1], t = size[2], d = size[3];
  Case c;
  c.tensor({b, t, 3, h, d}, dtype, gradient ? 2 : 1).tensor({b, h, t, d}, dtype);
  // Two products forward and five more for the gradient, half of each hidden.
  c.flops = (gradient ? 7.0 : 2.0) * static_cast<double>(b * h) * static_cast<double>(t) * static_cast<double>(t) *
            static_cast<double>(d);
  c.bound = Bound::compute;
  c.tolerance = attention_tolerance(dtype);
  c.make = [=](const Environment& env) {
    Tensor x = random_tensor({b, t, 3, h, d}, dtype, 1, env.device);
    const Tensor g = gradient ? random_tensor({b, h, t, d}, dtype, 2, env.device) : Tensor();
    if (gradient) x.set_requires_grad();
    Workload w;
    w.run = [=] { return results(fused, x, g); };
    add_unfused(env, w, [=] { return results(unfused, x, g); });
    return w;
  };
  return c;
}

}  // namespace

Family attention_family() {
  return {"attention",
          "BxHxTxD (causal, forward), grad:BxHxTxD (forward and backward) or decode:BxHxJxTxD (one query of H heads "
          "over T keys of J)",
          {"4x8x1024x64", "grad:4x8x1024x64", "1x8x333x80", "decode:1x8x8x8192x64", "decode:1x8x1x8192x64"},
          float_types,
          {"unfused"},
          parse_attention};
}

}  // namespace heddle::bench
