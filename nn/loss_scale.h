// LossScale: keeps the gradients of f16 training within range, by a factor that follows what overflows.
//
//   nn::LossScale scaling;                       // of the default device
//   optimizer.set_loss_scale(scaling);
//   ...
//   { const AutocastScope precision(DType::f16); loss = cross_entropy(model(x), y); }
//   backward(scaling.scale(loss));  optimizer.update();  optimizer.zero_grad();  eval_pending();
//
// Purpose: f16 has no numbers below 6e-8, and gradients have. The loss is multiplied by the scale, so all gradients
// are; the optimizer's update divides them by it again. When a gradient is infinite or NaN the update leaves parameters
// and state as they are and the scale is halved; after 2000 good updates in a row it is doubled. This is what
// torch.amp.GradScaler does, but decided on the device: nothing is read in a step, and one recording serves every step
// of compile(). bf16 has the range of f32 and needs no scale. Invariants: copies are handles of the same scale.
// Parameters' grad() keep the scale; Optimizer::last_norm() does not. Several backward() between two updates
// (accumulation) see one scale. A skipped update counts as a step of the optimizer, as the host does not know of it.
// Errors: ValueError for impossible options and states. Thread safety: none.
// Micikevicius et al. 2018, "Mixed precision training", section 3.2.
#pragma once

#include <cstdint>

#include "heddle/core/device/device_ref.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

struct LossScaleOptions {
  double start = 32768;
  double growth = 2;     // after `interval` good updates in a row; at least 1
  double backoff = 0.5;  // after one with infinite or NaN gradients; in (0, 1]
  int64_t interval = 2000;
  DeviceRef device = {};
};

class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options = {});

  // loss times the scale, in f32 for f16 and bf16.
  Tensor scale(const Tensor& loss, Caller caller = Caller::current()) const;
  // 1 / scale, rank 0: what an unscaled gradient is multiplied by.
  Tensor inverse(Caller caller = Caller::current()) const;
  // Records what follows from an update whose gradients were all `finite` (bool, rank 0), or not. Optimizer::update()
  // calls it.
  void update(const Tensor& finite, Caller caller = Caller::current());

  // The live values, rank 0: f32 the first, i32 the others. item() reads one, and waits for the device.
  const Tensor& value() const { return value_; }
  const Tensor& skipped() const { return skipped_; }  // updates so far that were left out
  const Tensor& grown() const { return grown_; }      // how often the scale grew

  // "value", "good" (updates since the scale last changed), "skipped", "grown"; shared with this scale, not copied.
  StateDict state_dict() const;
  // Strict: ValueError and ShapeError when something is missing, unexpected or of another shape; nothing changes then.
  void load_state_dict(const StateDict& state);

 private:
  LossScaleOptions options_;
  Tensor value_, good_, skipped_, grown_;
};

}  // namespace heddle::nn
