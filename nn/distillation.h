// Losses that learn from a teacher's distribution over classes instead of from a class: distillation.
//
//   const Tensor losses = nn::linear_distillation({student.features(x), student.head()},
//                                                 {teacher.features(x), teacher.head()}, {.temperature = 2});
//
// Purpose: T^2 D(P, Q) with P = softmax(teacher's logits / T), Q = softmax(student's logits / T); T^2 keeps the size of
// gradients, as Hinton et al. 2015, "Distilling the knowledge in a neural network", section 2.1, has it. D is
//   forward         KL(P || Q), theirs but for the teacher's entropy, a constant;
//   reverse         KL(Q || P);
//   jensen_shannon  b KL(P || M) + (1 - b) KL(Q || M) with M = b P + (1 - b) Q: Agarwal et al. 2024, "On-policy
//                   distillation of language models" (GKD), eq. 1.
// Invariants: natural logarithms; logits are finite; the teacher gets no gradient. linear_distillation() makes no
// tensor of (rows, classes), forward or backward, of neither's logits: both weights are multiplied a stretch of classes
// at a time, and once more for the gradient (nn/linear_cross_entropy.h); packed ones are read as they lie. Vocabularies
// may differ in length: the distributions are those over the first `classes`. Errors: ShapeError, DTypeError,
// ValueError. Thread safety: recording is per thread.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"
#include "heddle/nn/projection.h"

namespace heddle::nn {

enum class Divergence : uint8_t { forward, reverse, jensen_shannon };

struct DistillationOptions {
  Divergence divergence = Divergence::forward;
  double temperature = 1;  // above 0
  double mixture = 0.5;    // of jensen_shannon, in (0, 1): b
  int64_t classes = 0;     // the first so many are compared; 0: all of the shorter vocabulary
  int64_t stretch = 4096;  // classes at a time
};

// Logits (..., V) of the student and (..., V') of the teacher, on one device: losses (...).
Tensor distillation_loss(const Tensor& student, const Tensor& teacher, const DistillationOptions& options = {},
                         Caller caller = Caller::current());

// What a last projection reads, (..., C), and that projection, packed or not. Hooks of it, such as a Lora's, and a bias
// do not act.
struct ProjectedFeatures {
  Tensor features;
  Projection head;
};
// The same of features of the student (..., C) and the teacher (..., C'): losses (...).
Tensor linear_distillation(const ProjectedFeatures& student, const ProjectedFeatures& teacher,
                           const DistillationOptions& options = {}, Caller caller = Caller::current());

}  // namespace heddle::nn
