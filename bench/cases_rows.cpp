// softmax, layernorm and reduce: over the rows of RxC, or all of N elements.
#include <fmt/format.h>

#include "bench/peers/peers.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/norms.h"

namespace heddle::bench {
namespace {

double row_tolerance(DType dtype) { return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 2e-3 : 1.6e-2; }

Tensor from(const Bytes& bytes, const Shape& shape, DType dtype, DeviceContext& device) {
  return Tensor::from_bytes(bytes->data(), static_cast<size_t>(shape.numel()), dtype, shape, &device);
}

Case row_case(std::string_view family, const std::string& name, DType dtype, double flops_per_element) {
  const std::vector<int64_t> size = parse_sizes(family, name, 2, "ROWSxCOLUMNS");
  Case c;
  c.tensor({size[0], size[1]}, dtype).tensor({size[0], size[1]}, dtype);
  c.flops = flops_per_element * static_cast<double>(size[0]) * static_cast<double>(size[1]);
  c.bound = Bound::copy;
  c.tolerance = row_tolerance(dtype);
  return c;
}

// exp, subtract, divide, and the two reductions: 5 operations an element.
Case parse_softmax(const std::string& name, DType dtype) {
  Case c = row_case("softmax", name, dtype, 5);
  const std::vector<int64_t> size = parse_sizes("softmax", name, 2, "ROWSxCOLUMNS");
  c.make = [=](const Environment& env) {
    const Bytes x = random_bytes(size[0] * size[1], dtype, 1);
    const Tensor tx = from(x, {size[0], size[1]}, dtype, env.device);
    Workload w;
    w.run = [=] { return std::vector<Tensor>{softmax(tx)}; };
#ifdef HEDDLE_PEER_ONEDNN
    if (env.wants("onednn")) {
      if (auto peer = onednn::softmax(size[0], size[1], dtype, x)) w.peers.push_back(std::move(*peer));
    }
#endif
    return w;
  };
  return c;
}

// (x - mean) / sqrt(var + eps) * scale + shift with population variance: 8 operations an element.
Case parse_layernorm(const std::string& name, DType dtype) {
  Case c = row_case("layernorm", name, dtype, 8);
  const std::vector<int64_t> size = parse_sizes("layernorm", name, 2, "ROWSxCOLUMNS");
  c.tolerance *= 4;
  c.make = [=](const Environment& env) {
    constexpr float eps = 1e-5f;
    const Bytes x = random_bytes(size[0] * size[1], dtype, 1), scale = random_bytes(size[1], DType::f32, 2),
                shift = random_bytes(size[1], DType::f32, 3);
    const Tensor tx = from(x, {size[0], size[1]}, dtype, env.device),
                 ts = from(scale, {size[1]}, DType::f32, env.device),
                 tb = from(shift, {size[1]}, DType::f32, env.device);
    Workload w;
    w.run = [=] { return std::vector<Tensor>{layer_norm(tx, {size[1]}, ts, tb, eps)}; };
#ifdef HEDDLE_PEER_ONEDNN
    if (env.wants("onednn")) {
      if (auto peer = onednn::layernorm(size[0], size[1], dtype, x, scale, shift, eps))
        w.peers.push_back(std::move(*peer));
    }
#endif
    return w;
  };
  return c;
}

// N: the sum of all; RxC: a sum per row; cols:RxC: a sum per column.
Case parse_reduce(const std::string& name, DType dtype) {
  constexpr std::string_view form = "N, ROWSxCOLUMNS or cols:ROWSxCOLUMNS";
  const bool columns = name.starts_with("cols:");
  const std::string rest = columns ? name.substr(5) : name;
  const bool all = !columns && rest.find('x') == std::string::npos;
  const std::vector<int64_t> size = parse_sizes("reduce", rest, all ? 1 : 2, form);
  const Shape shape(std::span<const int64_t>(size.data(), size.size()));
  Case c;
  c.tensor(size, dtype);
  const int64_t results = all ? 1 : columns ? size[1] : size[0];
  c.tensor({results}, dtype);
  c.flops = c.bytes / static_cast<double>(size_of(dtype));
  c.bound = Bound::read;
  // Sums of values around zero: rounding grows with the root of the length.
  c.tolerance = row_tolerance(dtype) * 10;
  c.make = [=](const Environment& env) {
    const Tensor x = random_tensor(shape, dtype, 1, env.device);
    const std::vector<int> axes = all ? std::vector<int>{} : std::vector<int>{columns ? 0 : 1};
    Workload w;
    w.run = [=] { return std::vector<Tensor>{sum(x, axes)}; };
    return w;
  };
  return c;
}

}  // namespace

Family softmax_family() {
  return {"softmax", "ROWSxCOLUMNS", {"4096x1024", "32x10", "512x32000"}, float_types, {"onednn"}, parse_softmax};
}
Family layernorm_family() {
  return {"layernorm", "ROWSxCOLUMNS", {"4096x1024", "512x128", "32x8192"}, float_types, {"onednn"}, parse_layernorm};
}
Family reduce_family() {
  return {"reduce",
          "N (all), ROWSxCOLUMNS (each row) or cols:ROWSxCOLUMNS",
          {"67108864", "4096x1024", "cols:4096x1024"},
          float_types,
          {},
          parse_reduce};
}

}  // namespace heddle::bench
