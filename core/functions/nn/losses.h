// Losses composed of other functions: the rest of those of torch.nn.functional, and two of segmentation and detection.
//
// Purpose: each fuses into few kernels; gradients of any order come from the parts'. Inputs and targets have one shape
// unless said otherwise (losses do not broadcast by accident); integers are cast to f32. Reduction::mean divides by the
// number of losses, none leaves one for each element (or each row, where said). At kinks the gradient is that of
// docs/gradients.md: a hinge at 0 has 0. Errors: ShapeError, DTypeError, ValueError. Thread safety: recording is per
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "heddle/core/base/callable.h"
#include "heddle/core/functions/nn/loss.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight;  // (C) floating: of each class; the mean divides by the sum of the targets' weights
  std::optional<int64_t>
      ignore_index;            // targets of this number give no loss and are not counted; PyTorch's default is -100
  double label_smoothing = 0;  // in [0, 1]: that share of the target is spread evenly over the classes
};
// logits (N, C, ...) and class numbers (N, ...), or probabilities of logits' shape. All targets ignored: the mean is
// NaN, as in PyTorch.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                     Caller caller = Caller::current());

// -(y log p + (1 - y) log(1 - p)), each logarithm at least -100 as in PyTorch. From logits use bce_with_logits.
Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& target, Reduction reduction = Reduction::mean,
                            Caller caller = Caller::current());
// d^2 / (2 beta) where d = |x - y| < beta, else d - beta / 2; beta 0 is l1_loss.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, double beta = 1, Reduction reduction = Reduction::mean,
                      Caller caller = Caller::current());
// log(1 + exp(-y x)) for y of 1 and -1.
Tensor soft_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                        Caller caller = Caller::current());
// x where y is 1, max(0, margin - x) where it is -1.
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin = 1,
                            Reduction reduction = Reduction::mean, Caller caller = Caller::current());
// max(0, -y (a - b) + margin): y is 1 where a should rank higher.
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin = 0,
                           Reduction reduction = Reduction::mean, Caller caller = Caller::current());
// a and b (N, D), target (N): 1 - cos(a, b) where it is 1, max(0, cos(a, b) - margin) where it is -1; also (D), (D),
// ().
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin = 0,
                             Reduction reduction = Reduction::mean, Caller caller = Caller::current());
struct TripletOptions {
  double margin = 1, p = 2, epsilon = 1e-6;
  bool swap = false;  // takes the nearer one of anchor-negative and positive-negative. Balntas et al., "Learning local
                      // feature descriptors with triplets", 2016
  Reduction reduction = Reduction::mean;
};
// max(0, d(anchor, positive) - d(anchor, negative) + margin) of pairwise distances: one loss for each row of (N, D), or
// of (D).
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletOptions& options = {}, Caller caller = Caller::current());
// The same with a distance of the user's: a function of two batches (N, D) that gives one number for each row (N).
struct TripletDistanceOptions {
  double margin = 1;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
using Distance = Callable<Tensor(const Tensor& a, const Tensor& b)>;
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const Distance& distance, const TripletDistanceOptions& options = {},
                                         Caller caller = Caller::current());
// Softmax over many classes of which few are frequent. x (N, D), class numbers targets (N). head (S + T, D): a row for
// each of the S frequent classes and for each of the T clusters of the others; tails: for each cluster a projection
// (D', D) and a row for each of its classes (C', D'), whose numbers follow those before. `output` (N): the
// log-probability of each target, which is that of its cluster times that inside it; `loss`: minus their mean. Every
// cluster is computed for every row: which rows need it is known on the device alone, and shapes do not depend on data.
// Grave et al., "Efficient softmax approximation for GPUs", 2017.
struct AdaptiveTail {
  Tensor projection, rows;
};
struct AdaptiveLogSoftmax {
  Tensor output, loss;
};
AdaptiveLogSoftmax adaptive_log_softmax_with_loss(const Tensor& x, const Tensor& targets, const Tensor& head,
                                                  std::span<const AdaptiveTail> tails,
                                                  Caller caller = Caller::current());
// (N, C) and class numbers (N): sum over classes i other than the target y of max(0, margin - x[y] + x[i])^p / C, p of
// 1 or 2.
Tensor multi_margin_loss(const Tensor& input, const Tensor& targets, int p = 1, double margin = 1,
                         Reduction reduction = Reduction::mean, Caller caller = Caller::current());
// (N, C) and class numbers (N, C), of each row those before the first negative one: sum over these y and the other
// classes i of max(0, 1 - x[y] + x[i]) / C.
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& targets, Reduction reduction = Reduction::mean,
                              Caller caller = Caller::current());
// Mean over the last axis of bce_with_logits: one loss for each row.
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                                   Caller caller = Caller::current());
struct PoissonOptions {
  bool log_input = true;  // exp(x) - y x; else x - y log(x + epsilon)
  bool stirling = false;  // adds Stirling's y log y - y + log(2 pi y) / 2 where y > 1: PyTorch's "full"
  double epsilon = 1e-8;
  Reduction reduction = Reduction::mean;
};
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonOptions& options = {},
                        Caller caller = Caller::current());
struct GaussianOptions {
  bool constant = false;  // adds log(2 pi) / 2: PyTorch's "full"
  double epsilon = 1e-6;  // the variance counts as at least this; its gradient is not stopped there, as in PyTorch
  Reduction reduction = Reduction::mean;
};
// (log v + (x - y)^2 / v) / 2; the variance broadcasts to the input's shape.
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& variance,
                         const GaussianOptions& options = {}, Caller caller = Caller::current());
// alpha_t (1 - p_t)^gamma bce of logits and targets in [0, 1]; a negative alpha weighs nothing. Lin et al., "Focal loss
// for dense object detection", 2017.
Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, double alpha = 0.25, double gamma = 2,
                          Reduction reduction = Reduction::none, Caller caller = Caller::current());
// 1 - (2 sum(p y) + smooth) / (sum(p) + sum(y) + smooth), sums over all axes but the first: one loss for each example.
// Milletari et al., "V-Net", 2016.
Tensor dice_loss(const Tensor& probabilities, const Tensor& target, double smooth = 1,
                 Reduction reduction = Reduction::mean, Caller caller = Caller::current());

struct NllOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight;  // (C) floating: of each class; the mean divides by the sum of the targets' weights
  std::optional<int64_t> ignore_index;  // targets of this number give no loss and are not counted
};
// log probabilities (N, C, ...) and class numbers (N, ...).
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& targets, const NllOptions& options,
                Caller caller = Caller::current());
struct BceOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight;           // of each loss; broadcasts to the logits
  Tensor positive_weight;  // factor of the losses of positive targets; broadcasts to the logits
};
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& options,
                       Caller caller = Caller::current());

struct CtcOptions {
  int64_t blank = 0;  // the class that stands for no label
  Reduction reduction =
      Reduction::mean;  // mean: each loss divided by its target's length (at least 1), then over the batch
  bool zero_infinity =
      false;  // targets that do not fit their input give 0 instead of infinity (their gradient is 0 either way)
};
// Connectionist temporal classification: minus the log of the probability of all alignments of a target.
// log_probabilities (T, N, C), class numbers targets (N, S), integer lengths (N) of both, not above T and S. One scan
// over time (core/functions/control/control.h), in the log space. The gradient is that of log_probabilities as they
// are; PyTorch's adds what a log_softmax before them would give, so that both agree behind one. Graves et al.,
// "Connectionist temporal classification", 2006.
Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options = {}, Caller caller = Caller::current());

}  // namespace heddle
