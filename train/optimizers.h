// Optimizers and schedules by name, as a run is told them.
//
// Purpose: one object for what trains all parameters, even where two optimizers share the work: Muon is for matrices,
// the other parameters get AdamW. With it goes the loss scale of f16 training. Errors: ValueError that lists the known
// names, and for f16 with Muon or clip_value, which would meet scaled gradients. Thread safety: none.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/nn/loss_scale.h"
#include "heddle/nn/optim.h"
#include "heddle/nn/schedule.h"
#include "heddle/train/config.h"
#include "heddle/train/task.h"

namespace heddle::train {

const std::vector<std::string>& optimizer_names();
const std::vector<std::string>& schedule_names();

// The rate of each update of a run of `steps`. `plateau` is what a schedule of that name asks.
nn::Schedule make_schedule(const Config& config, int64_t steps, const std::shared_ptr<nn::Plateau>& plateau);

class Optimizers {
 public:
  Optimizers(Task& task, const Config& config, const nn::Schedule& schedule, DeviceContext& device);

  // What backward() is called with: the loss, in f16 training times the loss scale.
  Tensor scaled(const Tensor& loss) const { return scale_ ? scale_->scale(loss) : loss; }
  // Clips and updates; records.
  void update();
  void zero_grad();
  double lr() const { return all_.front()->lr(); }
  // Of the last update's gradients, before clipping; undefined without clip_norm.
  Tensor norm() const { return norm_; }
  // Of f16 training; null otherwise.
  const nn::LossScale* loss_scale() const { return scale_ ? &*scale_ : nullptr; }
  nn::StateDict state_dict() const;
  void load_state_dict(const nn::StateDict& state);

 private:
  std::vector<Tensor> parameters_;
  std::vector<std::unique_ptr<nn::Optimizer>> all_;
  double clip_norm_, clip_value_;  // 0: none
  std::optional<nn::LossScale> scale_;
  Tensor norm_;
};

}  // namespace heddle::train
