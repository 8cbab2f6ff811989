// optimizer: one step of an optimizer over many tensors, as one submission. adamw:TENSORSxELEMENTS.
#include <memory>

#include "bench/bench.h"
#include "core/base/error.h"
#include "core/graph/functions.h"
#include "nn/optim.h"

namespace heddle::bench {
namespace {

constexpr std::string_view form = "adamw:TENSORSxELEMENTS, adam:... or sgd:...";

std::shared_ptr<nn::Optimizer> make_optimizer(const std::string& kind, std::vector<Tensor> parameters) {
  if (kind == "adamw") return std::make_shared<nn::AdamW>(std::move(parameters), 1e-3);
  if (kind == "adam") return std::make_shared<nn::Adam>(std::move(parameters), 1e-3);
  return std::make_shared<nn::SGD>(std::move(parameters), nn::SgdOptions{.lr = 1e-2, .momentum = 0.9});
}

// Passes over the parameters: read gradient, parameter and states, write parameter and states.
Case parse(const std::string& name, DType dtype) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  if (colon == std::string::npos || (kind != "adamw" && kind != "adam" && kind != "sgd")) {
    throw ValueError("[bench] optimizer case '" + name + "' is not of the form " + std::string(form));
  }
  const std::vector<int64_t> size = parse_sizes("optimizer", name.substr(colon + 1), 2, form);
  Case c;
  const double passes = kind == "sgd" ? 5 : 7;
  c.tensor({size[0], size[1]}, dtype, passes);
  c.resident_bytes *= 3;
  c.largest_bytes = static_cast<double>(size[1]) * static_cast<double>(size_of(dtype));
  c.flops = (kind == "sgd" ? 4.0 : 12.0) * static_cast<double>(size[0]) * static_cast<double>(size[1]);
  c.bound = Bound::copy;
  c.stateful = true;
  c.make = [=](const Environment& env) {
    std::vector<Tensor> parameters;
    for (int64_t i = 0; i < size[0]; ++i) {
      Tensor p = random_tensor({size[1]}, dtype, static_cast<uint32_t>(2 * i + 1), env.device);
      p.set_requires_grad();
      p.set_grad(random_tensor({size[1]}, dtype, static_cast<uint32_t>(2 * i + 2), env.device));
      parameters.push_back(std::move(p));
    }
    auto optimizer = make_optimizer(kind, parameters);
    Workload w;
    w.run = [optimizer, parameters] {
      optimizer->step();
      return std::vector<Tensor>{};
    };
    return w;
  };
  return c;
}

}  // namespace

Family optimizer_family() { return {"optimizer", std::string(form), {"adamw:200x50000", "sgd:200x50000", "adamw:6x18000"}, {DType::f32}, {}, parse}; }

}  // namespace heddle::bench
