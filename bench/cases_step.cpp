// step: a whole training step (forward, backward, optimizer) on random data. The sizes stand in bench/training_step.h.
#include <memory>

#include "bench/bench.h"
#include "bench/training_step.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"

namespace heddle::bench {
namespace {

// The steps of the recipes first.
const std::vector<std::string> standard_steps = {
    "mlp:32",         "char-gpt", "cnn:32",       "mnist-cnn:64",     "resnet18:32x16",
    "resnet18:16x64", "vae:128",  "char-lstm:32", "gpt:4x128x12x128", "gpt-checkpoint:4x128x12x128"};

Case parse_step(const std::string& name, DType) {
  // Reads the text; what it makes on the null device is dropped.
  (void)make_training_step(name, device("null:0"));
  Case c;
  c.bound = Bound::none;
  c.stateful = true;
  c.make = [name](const Environment& env) {
    const auto step = std::make_shared<TrainingStep>(make_training_step(name, env.device));
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

Family step_family() { return {"step", std::string(training_step_form), standard_steps, {DType::f32}, {}, parse_step}; }

}  // namespace heddle::bench
