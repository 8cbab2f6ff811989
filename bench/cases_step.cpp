// step: a whole training step (forward, backward, optimizer) on random data. The sizes stand in bench/training_step.h.
// In bf16 the forward pass is recorded under autocast, parameters stay f32: what `training.precision=bf16` trains.
#include <memory>
#include <utility>

#include "bench/bench.h"
#include "bench/training_step.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/autocast.h"

namespace heddle::bench {
namespace {

// The steps of the recipes first.
const std::vector<std::string> standard_steps = {
    "mlp:32",         "char-gpt", "cnn:32",       "mnist-cnn:64",     "resnet18:32x16",
    "resnet18:16x64", "vae:128",  "char-lstm:32", "gpt:4x128x12x128", "gpt-checkpoint:4x128x12x128"};

TrainingStep step_in(DType dtype, const std::string& name, DeviceContext& device) {
  TrainingStep step = make_training_step(name, device);
  if (dtype == DType::f32) return step;
  step.loss = [dtype, loss = std::move(step.loss)](const Tensor& x, const Tensor& y) {
    const AutocastScope precision(dtype);
    return loss(x, y);
  };
  return step;
}

Case parse_step(const std::string& name, DType dtype) {
  // Reads the text; what it makes on the null device is dropped.
  (void)make_training_step(name, device("null:0"));
  Case c;
  c.bound = Bound::none;
  c.stateful = true;
  c.make = [name, dtype](const Environment& env) {
    const auto step = std::make_shared<TrainingStep>(step_in(dtype, name, env.device));
    // The optimizer's state is made by the first step.
    step->record();
    eval_pending();
    Workload w;
    w.run = [step] { return std::vector<Tensor>{step->record()}; };
    return w;
  };
  return c;
}

}  // namespace

// f16 is not among them: its gradients need a scaled loss (nn/loss_scale.h).
Family step_family() {
  return {"step", std::string(training_step_form), standard_steps, {DType::f32, DType::bf16}, {}, parse_step};
}

}  // namespace heddle::bench
