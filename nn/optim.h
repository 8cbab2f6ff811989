// Optimizers: SGD, RMSprop, Adagrad, Adam, AdamW, Adafactor and Muon by PyTorch's formulas, Lion and LAMB by their
// papers'.
//
// Each documents what it computes; p parameter, g gradient, t the update from 1. Invariants, state, clipping and
// groups: nn/optimizer.h. `states` says what moments are kept in; the optimizers without it have f32. Errors:
// ValueError for impossible hyperparameters. Thread safety: none.
#pragma once

#include <optional>
#include <vector>

#include "heddle/nn/optimizer.h"

namespace heddle::nn {

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  StateType states = StateType::f32;
};

class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, const SgdOptions& options = {});
  SGD(std::vector<Tensor> parameters, double lr) : SGD(std::move(parameters), SgdOptions{.lr = lr}) {}

 protected:
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<State> states_of(const Shape& shape) const override;

 private:
  SgdOptions options_;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  StateType states = StateType::f32;
};

// weight_decay adds decay * parameter to the gradient (L2).
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
  Adam(std::vector<Tensor> parameters, double lr) : Adam(std::move(parameters), AdamOptions{.lr = lr}) {}

 protected:
  Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled, const char* name);
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<State> states_of(const Shape& shape) const override;

 private:
  AdamOptions options_;
  bool decoupled_;
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
  StateType states = StateType::f32;
};

// Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2:
//   p = p (1 - lr * decay) - lr * sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
class Lion : public Optimizer {
 public:
  explicit Lion(std::vector<Tensor> parameters, const LionOptions& options = {});
  Lion(std::vector<Tensor> parameters, double lr) : Lion(std::move(parameters), LionOptions{.lr = lr}) {}

 protected:
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<State> states_of(const Shape& shape) const override;

 private:
  LionOptions options_;
};

struct RmsPropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
};

// v = alpha v + (1 - alpha) g^2;  p = p - lr g / (sqrt(v) + eps). Centered: by the variance, v less the square of the
// mean gradient. weight_decay adds decay * parameter to the gradient.
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(std::vector<Tensor> parameters, const RmsPropOptions& options = {});
  RMSprop(std::vector<Tensor> parameters, double lr) : RMSprop(std::move(parameters), RmsPropOptions{.lr = lr}) {}

 protected:
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<State> states_of(const Shape& shape) const override;

 private:
  RmsPropOptions options_;
};

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double eps = 1e-10;
  double weight_decay = 0;
  double initial_sum = 0;
};

// s = s + g^2;  p = p - lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps). weight_decay adds decay * parameter to the
// gradient.
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(std::vector<Tensor> parameters, const AdagradOptions& options = {});
  Adagrad(std::vector<Tensor> parameters, double lr) : Adagrad(std::move(parameters), AdagradOptions{.lr = lr}) {}

 protected:
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<State> states_of(const Shape& shape) const override;

 private:
  AdagradOptions options_;
};

struct AdafactorOptions {
  double lr = 1e-2;  // the largest relative step
  double beta2_decay = -0.8;
  std::optional<double> eps1 = {};  // none: the parameter's machine epsilon
  double eps2 = 1e-3;               // smallest scale of a parameter
  double clip = 1;                  // largest root mean square of an update
  double weight_decay = 0;
};

// Shazeer and Stern 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost": of matrices only the means
// of g^2 over rows and columns are kept. Matrices are the last two dimensions.
class Adafactor : public Optimizer {
 public:
  explicit Adafactor(std::vector<Tensor> parameters, const AdafactorOptions& options = {});
  Adafactor(std::vector<Tensor> parameters, double lr) : Adafactor(std::move(parameters), AdafactorOptions{.lr = lr}) {}
  bool is_elementwise() const override { return false; }

 protected:
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<State> states_of(const Shape& shape) const override;

 private:
  Tensor mean_square(Slot& slot, const Tensor& gradient);

  AdafactorOptions options_;
};

struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 1e-2;
};

// You et al. 2020, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", algorithm 2: Adam's
// direction and the decay, scaled for each parameter by |p| / |direction| (1 where either is 0).
class LAMB : public Optimizer {
 public:
  explicit LAMB(std::vector<Tensor> parameters, const LambOptions& options = {});
  LAMB(std::vector<Tensor> parameters, double lr) : LAMB(std::move(parameters), LambOptions{.lr = lr}) {}
  bool is_elementwise() const override { return false; }

 protected:
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<State> states_of(const Shape& shape) const override;

 private:
  LambOptions options_;
};

struct MuonOptions {
  double lr = 1e-3;
  double momentum = 0.95;
  double weight_decay = 0.1;
  bool nesterov = true;
  int iterations = 5;  // of Newton and Schulz
  bool match_adam =
      false;  // lr * 0.2 sqrt(max(rows, columns)), which suits AdamW's rates; else lr * sqrt(max(1, rows / columns))
};

// Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks": the momentum of a matrix, made nearly
// orthogonal by five steps of an odd polynomial of degree 5. Products are computed in the state's dtype (PyTorch:
// bf16). For the matrices between the first and the last layer; ValueError for parameters that are no matrices.
class Muon : public Optimizer {
 public:
  explicit Muon(std::vector<Tensor> parameters, const MuonOptions& options = {});
  Muon(std::vector<Tensor> parameters, double lr) : Muon(std::move(parameters), MuonOptions{.lr = lr}) {}
  bool is_elementwise() const override { return false; }

 protected:
  void update_slot(Slot& slot, const Tensor& gradient) override;
  std::vector<State> states_of(const Shape& shape) const override;

 private:
  MuonOptions options_;
};

}  // namespace heddle::nn
