// optimizer: one step of an optimizer over many tensors, as one submission. adamw:TENSORSxELEMENTS; clip-adamw:... with
// the global norm and the clip at it. Gradients are tensors of their own, made by one step, as backward() leaves them.
#include <algorithm>
#include <memory>

#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/optim.h"

namespace heddle::bench {
namespace {

constexpr std::string_view optimizer_form =
    "adamw:TENSORSxELEMENTS, adam:..., lion:... or sgd:..., each also as clip-...";

// Passes over the parameters: read gradient, parameter and states, write parameter and states; clipping reads the
// gradients once more.
struct Kind {
  std::string_view name;
  double passes, flops;
};
constexpr Kind kinds[] = {{"adamw", 7, 12}, {"adam", 7, 12}, {"lion", 5, 8}, {"sgd", 5, 4}};

std::shared_ptr<nn::Optimizer> make_optimizer(const std::string& kind, std::vector<Tensor> parameters) {
  if (kind == "adamw") return std::make_shared<nn::AdamW>(std::move(parameters), 1e-3);
  if (kind == "adam") return std::make_shared<nn::Adam>(std::move(parameters), 1e-3);
  if (kind == "lion") return std::make_shared<nn::Lion>(std::move(parameters), nn::LionOptions{.weight_decay = 1e-2});
  return std::make_shared<nn::SGD>(std::move(parameters), nn::SgdOptions{.lr = 1e-2, .momentum = 0.9});
}

Case parse_optimizer(const std::string& name, DType dtype) {
  const size_t colon = name.find(':');
  const bool clip = name.starts_with("clip-");
  const std::string kind = colon == std::string::npos ? "" : name.substr(clip ? 5 : 0, colon - (clip ? 5 : 0));
  const auto* row = std::find_if(std::begin(kinds), std::end(kinds), [&](const Kind& k) { return k.name == kind; });
  if (row == std::end(kinds)) {
    throw ValueError("[bench] optimizer case '" + name + "' is not of the form " + std::string(optimizer_form));
  }
  const std::vector<int64_t> size = parse_sizes("optimizer", name.substr(colon + 1), 2, optimizer_form);
  Case c;
  c.tensor({size[0], size[1]}, dtype, row->passes + clip);
  c.resident_bytes *= 3;
  c.largest_bytes = static_cast<double>(size[1]) * static_cast<double>(size_of(dtype));
  c.flops = (row->flops + 3 * clip) * static_cast<double>(size[0]) * static_cast<double>(size[1]);
  c.bound = Bound::copy;
  c.stateful = true;
  c.make = [=](const Environment& env) {
    std::vector<Tensor> parameters;
    for (int64_t i = 0; i < size[0]; ++i) {
      Tensor p = random_tensor({size[1]}, dtype, static_cast<uint32_t>(2 * i + 1), env.device);
      p.set_requires_grad();
      parameters.push_back(std::move(p));
    }
    const auto optimizer = make_optimizer(kind, parameters);
    if (clip) optimizer->set_clip_norm(1.0);
    std::vector<Tensor> gradients;
    for (int64_t i = 0; i < size[0]; ++i) {
      gradients.push_back(-random_tensor({size[1]}, dtype, static_cast<uint32_t>(2 * i + 2), env.device));
      parameters[static_cast<size_t>(i)].set_grad(gradients.back());
    }
    eval(gradients);
    Workload w;
    w.run = [optimizer, parameters] {
      optimizer->step();
      return parameters;
    };
    return w;
  };
  return c;
}

}  // namespace

Family optimizer_family() {
  return {"optimizer",
          std::string(optimizer_form),
          {"adamw:200x50000", "clip-adamw:200x50000", "lion:200x50000", "sgd:200x50000", "clip-sgd:200x50000",
           "adamw:6x18000"},
          {DType::f32},
          {},
          parse_optimizer};
}

}  // namespace heddle::bench
