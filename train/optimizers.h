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
#include "heddle/io/safetensors.h"
#include "heddle/nn/loss_scale.h"
#include "heddle/nn/optim.h"
#include "heddle/nn/schedule.h"
#include "heddle/train/config.h"
#include "heddle/train/task.h"

namespace heddle::train {

// The rate of each update of a run of `steps`. `plateau` is what a schedule of that name asks.
nn::Schedule make_schedule(const Config& config, int64_t steps, const std::shared_ptr<nn::Plateau>& plateau);

class Optimizers {
 public:
  Optimizers(Task& task, const Config& config, const nn::Schedule& schedule, DeviceContext& device);

  // What backward() is called with: the loss, in f16 training times the loss scale.
  Tensor scaled(const Tensor& loss) const { return scale_ ? scale_->scale(loss) : loss; }
  // Clips and updates; records. `norm`: of all gradients before clip_norm, if it is known, f32 of rank 0.
  void update(const Tensor& norm = {});
  void zero_grad();
  double lr() const;
  // Of the last update's gradients, before clipping; undefined without clip_norm.
  Tensor norm() const { return norm_; }
  // Of f16 training; null otherwise.
  const nn::LossScale* loss_scale() const { return scale_ ? &*scale_ : nullptr; }
  // Of shards: the loss scale's alone.
  nn::StateDict state_dict() const;
  void load_state_dict(const nn::StateDict& state);

  // ---- of several processes each with the states of some elements (nn/optimizer.h, keep_shards(); here parameters are
  // the model's)
  bool is_elementwise() const;
  void keep_shards(const std::vector<nn::Shard>& shards);
  bool keeps_shards() const { return keeps_shards_; }
  // Clips and updates by gradients of the shards, whose norm before clip_norm is `norm`; gives their new elements.
  // `elements`: of nn::Optimizer::update_shards().
  std::vector<Tensor> update_shards(std::vector<Tensor> gradients, const Tensor& norm,
                                    const std::vector<Tensor>& elements = {});
  // Whether the norm of all gradients is asked for.
  bool takes_norm() const { return clip_norm_ > 0 || scale_.has_value(); }
  double clip_value() const { return clip_value_; }  // 0: none
  // Elements [begin, end) of the state `name` of state_dict() without shards, whose shape is `whole`.
  struct ShardState {
    std::string name;
    Shape whole;
    int64_t begin = 0, end = 0;
    Tensor values;
  };
  std::vector<ShardState> shard_states() const;
  // Takes the own elements of whole states, by name; with the loss scale's. Errors: those of load_state_dict().
  void load_shards(const TensorBytesMap& states);

 private:
  void scale_gradients(const Tensor& norm);
  // What clip_norm multiplies gradients of that norm by.
  Tensor together_scale(const Tensor& norm) const;

  std::vector<Tensor> parameters_;
  std::vector<std::unique_ptr<nn::Optimizer>> all_;
  bool keeps_shards_ = false;
  std::vector<std::vector<size_t>> shard_places_;  // by optimizer: which of the given shards are its own
  DeviceContext& device_;
  double clip_norm_, clip_value_;  // 0: none
  std::optional<nn::LossScale> scale_;
  Tensor norm_;
};

}  // namespace heddle::train
