// Optimizers: SGD, Adam, AdamW by PyTorch's formulas, Lion by its paper's.
//
// Purpose: update() records the new values of parameters and state as assigns; step() also runs what is pending. A
// training step is
//   Tensor loss = cross_entropy(model(x), y);  backward(loss);  optimizer.update();  optimizer.zero_grad();
//   eval_pending();
//
// All parameters are updated in few launches: parameters and state are put side by side in memory, and the scheduler joins updates of equal form
// (core/exec/horizontal.h); those of a matmul's weight may also become its epilogue.
// Invariants: numbers that change from step to step (learning rate, bias corrections) are computed in double on the
// host and enter the graph as host scalars, so every step has the same structure. Parameters without a gradient are
// skipped and their step count stands still. State is made with a parameter's first gradient; it is f32 for f16 and
// bf16 parameters.
// Errors: ValueError for impossible hyperparameters.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace heddle::nn {

class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Records the update; gradients are read, not cleared.
  void update(Caller caller = Caller::current());
  // update() and run everything pending; returns when it is enqueued.
  void step(Caller caller = Caller::current());
  // Drops the gradients of all parameters.
  void zero_grad();

  double lr() const { return lr_; }
  void set_lr(double lr);
  // From the next update on, the learning rate of an update is schedule(n) for the n-th step of its parameters (from 1; saved with the state); an empty function: what set_lr() says.
  // A schedule keeps its pace inside compile(), where set_lr() would make the function run at every call.
  void set_schedule(std::function<double(int64_t update)> schedule);
  const std::vector<Tensor>& parameters() const { return parameters_; }

  // From the next update on, gradients are scaled so that their global norm (order 2, over all parameters that have one) is at most max_norm; none:
  // no limit. The scale is applied inside the update: it costs the norm's read of the gradients and nothing else; the gradients themselves keep
  // their values. An update whose norm is infinite or NaN leaves parameters and state as they are; its step count advances, as the host does not
  // know. ValueError for a limit that is not positive, and at the update for parameters on several devices.
  void set_clip_norm(std::optional<double> max_norm);
  std::optional<double> clip_norm() const { return clip_norm_; }
  // The norm of the last update's gradients before clipping, rank 0; undefined when that update did not clip.
  Tensor last_norm() const { return norm_; }

  // The live state tensors (shared, not copied) by "<parameter index>.<name>" ("0.m", "0.v", "0.step"); step counts are
  // i64 scalars. Parameters not yet stepped have none.
  StateDict state_dict() const;
  // Strict: ValueError with the names that are missing or unexpected, ShapeError for one that does not fit; nothing
  // changes when it throws.
  void load_state_dict(const StateDict& state);

 protected:
  Optimizer(std::vector<Tensor> parameters, double lr, const char* name);

  // The state of one parameter.
  struct Slot {
    Tensor parameter;
    int64_t steps = 0;                      // updates so far
    const DeviceContext* placed = nullptr;  // where place_parameters() last saw the parameter
    std::map<std::string, Tensor> tensors;  // of the parameter's shape
  };
  // Before the slots of one update() and after them: forgets the host scalars that they share, which would be held.
  virtual void begin_update() {}
  // Records the update of one parameter; slot.steps is the count including this one. The gradient is in the state's dtype, and clipped.
  virtual void update_slot(Slot& slot, const Tensor& gradient) = 0;
  virtual std::vector<std::string> state_names() const = 0;
  // The state tensor of that name; update() has made it.
  static Tensor& state(Slot& slot, const std::string& name) { return slot.tensors.at(name); }
  // Assigns value, cast to the target's dtype, unless the norm is not finite; returns what the target then holds. What is computed from that
  // rather than from `value` shares its kernel.
  Tensor write(Tensor& target, const Tensor& value);
  // A scalar, or a number, in the shape of `like`; parameters of one shape share it, so that an update over many records few nodes.
  const Tensor& spread(const Tensor& scalar, const Tensor& like);
  const Tensor& number(double value, const Tensor& like);

 private:
  double checked_lr(double lr) const;
  void count_step(const std::vector<Slot*>& slots);
  void begin_clipping(const std::vector<Slot*>& slots);
  void place_parameters();
  void make_states(std::vector<Slot*> slots) const;

  std::vector<Tensor> parameters_;
  std::vector<Slot> slots_;
  double lr_;
  std::function<double(int64_t)> schedule_;
  std::string name_;
  std::optional<double> clip_norm_;
  Tensor norm_;
  Tensor scale_, finite_;  // of this update: what multiplies the gradients, and whether their norm is finite
  std::map<std::tuple<const void*, double, DType, std::string>, Tensor> spread_;  // of this update
};

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, const SgdOptions& options = {});
  SGD(std::vector<Tensor> parameters, double lr) : SGD(std::move(parameters), SgdOptions{.lr = lr}) {}

 protected:
  void begin_update() override;
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<std::string> state_names() const override;

 private:
  SgdOptions options_;
  std::map<DeviceContext*, Tensor> lr_scalars_;  // of this update
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

// weight_decay adds decay * parameter to the gradient (L2).
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
  Adam(std::vector<Tensor> parameters, double lr) : Adam(std::move(parameters), AdamOptions{.lr = lr}) {}

 protected:
  Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled, const char* name);
  void begin_update() override;
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<std::string> state_names() const override;

 private:
  struct Scalars {
    Tensor step_size;     // lr / (1 - beta1^t)
    Tensor inverse_root;  // 1 / sqrt(1 - beta2^t)
    Tensor keep;          // 1 - lr * weight_decay; AdamW only
  };
  const Scalars& scalars(const Slot& slot);

  AdamOptions options_;
  bool decoupled_;
  std::map<std::pair<DeviceContext*, int64_t>, Scalars> scalars_;  // of this update, by device and step count
};

// weight_decay shrinks the parameter by lr * decay, apart from the gradient.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamOptions& options = {.weight_decay = 1e-2});
  AdamW(std::vector<Tensor> parameters, double lr)
      : AdamW(std::move(parameters), AdamOptions{.lr = lr, .weight_decay = 1e-2}) {}
};

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

// Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2:
//   p = p (1 - lr * decay) - lr * sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
class Lion : public Optimizer {
 public:
  explicit Lion(std::vector<Tensor> parameters, const LionOptions& options = {});
  Lion(std::vector<Tensor> parameters, double lr) : Lion(std::move(parameters), LionOptions{.lr = lr}) {}

 protected:
  void begin_update() override;
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<std::string> state_names() const override;

 private:
  LionOptions options_;
  std::map<DeviceContext*, std::pair<Tensor, Tensor>> scalars_;  // of this update: lr, 1 - lr * decay
};

}  // namespace heddle::nn
