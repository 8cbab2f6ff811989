// Optimizer: what all optimizers share (nn/optim.h has them).
//
// Purpose: update() records the new values of parameters and state as assigns; step() also runs what is pending. A
// training step is
//   Tensor loss = cross_entropy(model(x), y);  backward(loss);  optimizer.update();  optimizer.zero_grad();
//   eval_pending();
//
// All parameters are updated in few launches: parameters and state are put side by side in memory, and the scheduler
// joins updates of equal form (core/lower/horizontal.h); those of a matmul's weight may also become its epilogue.
// Invariants: numbers that change from step to step (learning rate, bias corrections) are computed in double on the
// host and enter the graph as host scalars, so every step has the same structure. Parameters without a gradient are
// skipped and their step count stands still. State is made with a parameter's first gradient; it is f32 for f16 and
// bf16 parameters. With StateType::bits8 the states of parameters of 4,096 elements and more are blocks of 256 codes of
// 8 bits with a scale each (nn/packed_state.h): an update reads them as f32, computes with what it gives, and rounds
// that; "m" is then "m.codes" and "m.scales" in the state. An update that is left out leaves codes and scales as they
// are; without a limit and a loss scale a gradient that is NaN or infinite makes its blocks NaN, as it makes an
// element.
//
// Parameters that need other numbers than the rest are a group:
//   optimizer.set_group({norm.weight, norm.bias}, {.weight_decay = 0});
//
// Of several processes with the same parameters each may keep the states of some elements only (ZeRO; Rajbhandari et
// al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", sections 5.1 and 5.2):
// keep_shards() says which, and update_shards() takes their gradients and gives their new values, which are the
// caller's to spread. Errors: ValueError for impossible hyperparameters and for no parameters at all, DTypeError for
// states in 8 bits of f64 parameters; GradError for an update when no parameter has, or ever had, a gradient. Thread
// safety: none.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/base/owned.h"
#include "heddle/nn/loss_scale.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

// What the states of a parameter's shape are kept in.
enum class StateType : uint8_t { f32, bits8 };

struct GroupOptions {
  double lr_scale = 1;                      // times the optimizer's learning rate, whatever the schedule says
  std::optional<double> weight_decay = {};  // instead of the optimizer's
};

// Elements [begin, end) of a parameter in row-major order, by its place among the optimizer's parameters.
struct Shard {
  size_t parameter = 0;
  int64_t begin = 0, end = 0;
  bool operator==(const Shard&) const = default;
};

class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Records the update; gradients are read, not cleared.
  void update(Caller caller = Caller::current());
  // The same where the norm of all gradients is known, still with the loss's scale: f32 of rank 0. It is taken instead
  // of one that update() would measure.
  void update_by_norm(const Tensor& norm, Caller caller = Caller::current());
  // update() and run everything pending; returns when it is enqueued.
  void step(Caller caller = Caller::current());
  // Drops the gradients of all parameters.
  void zero_grad();

  double lr() const { return lr_; }
  void set_lr(double lr);
  // From the next update on, the learning rate of an update is schedule(n) for the n-th step of its parameters (from 1;
  // saved with the state); an empty function: what set_lr() says. A schedule keeps its pace inside compile(), where
  // set_lr() would make the function run at every call.
  void set_schedule(Callable<double(int64_t update)> schedule);
  const std::vector<Tensor>& parameters() const { return parameters_; }

  // From the next update on, these parameters have numbers of their own; a parameter is in the group that named it
  // last. ValueError for a tensor that is no parameter of this optimizer, and for a negative or infinite number.
  void set_group(const std::vector<Tensor>& of, const GroupOptions& options);

  // From the next update on, gradients are scaled so that their global norm (order 2, over all parameters that have
  // one) is at most max_norm; none: no limit. The scale is applied inside the update: it costs the norm's read of the
  // gradients and nothing else; the gradients themselves keep their values. An update whose norm is infinite or NaN
  // leaves parameters and state as they are; its step count advances, as the host does not know. ValueError for a limit
  // that is not positive, and at the update for parameters on several devices.
  void set_clip_norm(std::optional<double> max_norm);
  std::optional<double> clip_norm() const { return clip_norm_; }
  // From the next update on, gradients are divided by that scale (nn/loss_scale.h), and the scale follows each update;
  // none: they are as they are. The norm to clip at means the divided ones. An update with an infinite or NaN gradient
  // leaves parameters and state as they are, as above.
  void set_loss_scale(std::optional<LossScale> scale);
  const std::optional<LossScale>& loss_scale() const { return loss_scale_; }
  // The norm of the last update's gradients before clipping, without the loss's scale, rank 0; undefined when that
  // update neither clipped nor scaled.
  Tensor last_norm() const { return norm_; }

  // Whether each element is updated by its own gradient and state alone: then shards may begin and end anywhere.
  virtual bool is_elementwise() const { return states_ == StateType::f32; }
  // From now on there are states of these shards alone, update_shards() takes the place of update(), and what
  // state_dict() says of the n-th parameter it says of the n-th shard, whose states have its elements as their shape,
  // or, of a whole parameter, that one's. An optimizer that is not elementwise takes whole parameters. There may be no
  // shards. ValueError for a shard that is none of a parameter, or not a whole one where it has to be, and behind the
  // first update.
  void keep_shards(const std::vector<Shard>& shards);
  const std::vector<Shard>& shards() const { return shards_; }
  // Records the update of shards; parameters stay as they are. `gradients`: by shard, its elements (count) or, of a
  // whole parameter, its shape; an undefined one leaves its shard out. Behind all of them may stand the shards'
  // elements themselves, where parameters do not have them. `norm`: of all gradients of all shards everywhere, f32 of
  // rank 0, still with the loss's scale; may be undefined without a norm to clip at and a loss scale. Gives the new
  // elements in the shape of the gradient; undefined for what was left out. ValueError for another number of gradients.
  std::vector<Tensor> update_shards(const std::vector<Tensor>& gradients, const Tensor& norm = {},
                                    Caller caller = Caller::current());

  // The live state tensors (shared, not copied) by "<parameter index>.<name>" ("0.m", "0.v", "0.step"); step counts are
  // i64 scalars. Parameters not yet stepped have none.
  StateDict state_dict() const;
  // Strict: ValueError with the names that are missing or unexpected, ShapeError for one that does not fit, DTypeError
  // for codes that are not u8; nothing changes when it throws.
  void load_state_dict(const StateDict& state);

 protected:
  Optimizer(std::vector<Tensor> parameters, double lr, const char* name, StateType states = StateType::f32);

  // A tensor of state, as it is before the first update.
  struct State {
    std::string name;
    Shape shape;
    double start = 0;
    bool is_codes = false;  // u8
  };
  // A state of the parameter's shape that begins as zeros, in the type that the optimizer was made with.
  struct Moment {
    const char* name;
    bool is_positive;  // no element is below 0
  };
  static constexpr Moment first_moment{"m", false}, second_moment{"v", true}, momentum{"momentum", false};
  // The state of one parameter.
  struct Slot {
    Tensor parameter;
    GroupOptions group;
    int64_t steps = 0;                      // updates so far
    std::optional<Shard> shard = {};        // none: all of it, which is updated in place
    Tensor shaped = {};                     // of this update: the elements, in blocks where their states are packed
    Tensor updated = {};                    // of this update: the shard's new elements
    const DeviceContext* placed = nullptr;  // where place_parameters() last saw the parameter
    std::map<std::string, Tensor> tensors;
  };
  // Records the update of one parameter; slot.steps is the count including this one. The gradient is in the state's
  // dtype, and clipped; with moments it is of the shape of slot.shaped.
  virtual void update_slot(Slot& slot, const Tensor& gradient) = 0;
  // `shape`: of the parameter, or (n) of elements of it.
  virtual std::vector<State> states_of(const Shape& shape) const = 0;
  // States of that shape that begin as zeros.
  static std::vector<State> like(const Shape& shape, std::initializer_list<const char*> names);
  // The state tensor of that name; update() has made it.
  static Tensor& state(Slot& slot, const std::string& name);
  std::vector<State> of_moments(const Shape& shape, std::initializer_list<Moment> moments) const;
  // The moment's elements in the shape of slot.shaped.
  static Tensor read(const Slot& slot, const Moment& moment);
  // write(), of a moment; what is returned is not rounded yet.
  Tensor write(Slot& slot, const Moment& moment, const Tensor& value);
  // The new elements of the slot's parameter, in the shape of slot.shaped: assigned, or given to update_shards().
  void write_parameter(Slot& slot, const Tensor& value);
  // The weight decay of the slot's group; `otherwise` where it has none of its own.
  static double decay(const Slot& slot, double otherwise);
  // The learning rate of the slot's group.
  double lr_of(const Slot& slot) const { return lr_ * slot.group.lr_scale; }
  // Assigns value, cast to the target's dtype, unless the norm is not finite; returns what the target then holds. What
  // is computed from that rather than from `value` shares its kernel. A value in blocks is taken out of them.
  Tensor write(Tensor& target, const Tensor& value);
  // A number that changes from step to step, as a host scalar in the shape of `like`; slots of one device, group and
  // step count share it, by `key` (a literal). It is asked for again at each replay of a compiled step.
  const Tensor& varying(const Slot& slot, const char* key, Callable<double(const Slot&)> value, const Tensor& like);
  // varying(), of the group's learning rate, and of 1 - lr * decay.
  const Tensor& rate(const Slot& slot);
  const Tensor& keep(const Slot& slot, double weight_decay);
  // A scalar, or a number, in the shape of `like`; parameters of one shape share it, so that an update over many
  // records few nodes.
  const Tensor& spread(const Tensor& scalar, const Tensor& like);
  const Tensor& number(double value, const Tensor& like);

 private:
  double checked_lr(double lr) const;
  bool is_packed(const Shape& shape) const;
  static Shape shape_of(const Slot& slot);
  static Tensor elements_of(const Slot& slot);
  Shard checked(const Shard& shard) const;
  [[noreturn]] void throw_without_gradients() const;
  void count_step(const std::vector<Slot*>& slots);
  void record_updates(const Tensor& norm);
  void measure_gradients(const std::vector<Slot*>& slots, const Tensor& norm);
  void take_norm(const Tensor& norm);
  void record_update(Slot& slot, const Tensor& elements, const Tensor& gradient);
  void end_update();
  void place_parameters();
  void make_states(std::vector<Slot*> slots) const;
  static std::vector<uint8_t> filled(const State& state, DType dtype);
  Tensor loaded_state(const Slot& slot, const State& state, const std::string& key, const Tensor& given) const;

  std::vector<Tensor> parameters_;
  std::vector<Slot> slots_;  // by parameter, or by shard
  std::vector<Shard> shards_;
  bool keeps_shards_ = false;
  double lr_;
  Callable<double(int64_t)> schedule_;
  std::string name_;
  StateType states_;
  std::optional<double> clip_norm_;
  std::optional<LossScale> loss_scale_;
  Tensor norm_;
  Tensor scale_, finite_;  // of this update: what multiplies the gradients, and whether their norm is finite
  struct Shared;           // of this update: numbers that several parameters use
  Owned<Shared> shared_;
};

}  // namespace heddle::nn
