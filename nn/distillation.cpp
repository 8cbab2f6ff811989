#include "heddle/nn/distillation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "heddle/autograd/custom.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/class_stretches.h"

namespace heddle::nn {
namespace {

// log(b P + (1 - b) Q) of logarithms.
Tensor log_mixture(const Tensor& log_p, const Tensor& log_q, double b) {
  return logaddexp(log_p + std::log(b), log_q + std::log1p(-b));
}

// What the student's and the teacher's logits over one temperature are computed of, and how they are compared.
struct Compared {
  ClassRows student, teacher;
  ClassStretches stretches;
  Divergence divergence = Divergence::forward;
  double mixture = 0.5;
};

// Rows of both, (N, C) and (N, C'), and weights whose first rows are the classes.
struct Sides {
  Tensor x, weight, teacher_x, teacher_weight;
};
// The student's and the teacher's logits of a stretch.
struct Logits {
  Tensor q, p;
};
Logits logits_of(const Compared& c, const Sides& s, const std::vector<Tensor>& part) {
  return {c.student.logits(s.x, part[0]), cast(c.teacher.logits(s.teacher_x, part[1]), s.x.dtype())};
}

// Of rows, (N, 1) each: D; logarithms of the sums of exponentials; and what the gradient subtracts, which is the mean
// of log(Q / P) or of log(Q / M) under Q.
struct Divergences {
  Tensor values, log_q, log_p, mean;
};

// KL(A || B) = sum A (a - b) - log sum exp(a) + log sum exp(b), where A is the student's distribution or the teacher's;
// that sum is carried with A's maxima.
Divergences one_sided(const Compared& c, const Sides& s) {
  const bool forward = c.divergence == Divergence::forward;
  const RunningSums none = RunningSums::before(s.x);
  const Tensor zero = zeros({s.x.dim(0), 1}, s.x.dtype(), &s.x.device());
  const auto step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& part) {
    const Logits z = logits_of(c, s, part);
    const Tensor &a = forward ? z.p : z.q, &b = forward ? z.q : z.p;
    const RunningSums before{carry[0], carry[1]};
    const RunningSums leading = before.with(a), other = RunningSums{carry[2], carry[3]}.with(b);
    const Tensor cross = carry[4] * exp(before.most - leading.most) + sum(exp(a - leading.most) * (a - b), {1}, true);
    return Scanned{{leading.most, leading.sums, other.most, other.sums, cross}, {}};
  };
  const std::vector<Tensor> last =
      c.stretches.over({s.weight, s.teacher_weight}, {none.most, none.sums, none.most, none.sums, zero}, step).carry;
  const Tensor leading = RunningSums{last[0], last[1]}.logarithms(), other = RunningSums{last[2], last[3]}.logarithms();
  const Tensor values = last[4] / last[1] - leading + other;
  return forward ? Divergences{values, other, leading, zero} : Divergences{values, leading, other, values};
}

// The mixture needs both logarithms at every class, so the classes are gone through twice.
Divergences of_mixture(const Compared& c, const Sides& s) {
  const RunningSums none = RunningSums::before(s.x);
  const std::vector<Tensor> weights{s.weight, s.teacher_weight};
  const auto summed = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& part) {
    const Logits z = logits_of(c, s, part);
    const RunningSums q = RunningSums{carry[0], carry[1]}.with(z.q), p = RunningSums{carry[2], carry[3]}.with(z.p);
    return Scanned{{q.most, q.sums, p.most, p.sums}, {}};
  };
  const std::vector<Tensor> sums =
      c.stretches.over(weights, {none.most, none.sums, none.most, none.sums}, summed).carry;
  const Tensor of_q = RunningSums{sums[0], sums[1]}.logarithms(), of_p = RunningSums{sums[2], sums[3]}.logarithms();
  const auto compared = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& part) {
    const Logits z = logits_of(c, s, part);
    const Tensor log_q = z.q - of_q, log_p = z.p - of_p, log_m = log_mixture(log_p, log_q, c.mixture);
    return Scanned{{carry[0] + sum(exp(log_q) * (log_q - log_m), {1}, true),
                    carry[1] + sum(exp(log_p) * (log_p - log_m), {1}, true)},
                   {}};
  };
  const Tensor zero = zeros({s.x.dim(0), 1}, s.x.dtype(), &s.x.device());
  const std::vector<Tensor> last = c.stretches.over(weights, {zero, zero}, compared).carry;
  return {c.mixture * last[1] + (1 - c.mixture) * last[0], of_q, of_p, last[0]};
}

Divergences divergences_of(const Compared& c, const Sides& s) {
  return c.divergence == Divergence::jensen_shannon ? of_mixture(c, s) : one_sided(c, s);
}

// dD / d(the student's logits) of a stretch.
Tensor derivative(const Compared& c, const Logits& z, const Divergences& d) {
  const Tensor log_q = z.q - d.log_q, log_p = z.p - d.log_p, q = exp(log_q);
  if (c.divergence == Divergence::forward) return q - exp(log_p);
  if (c.divergence == Divergence::reverse) return q * (log_q - log_p - d.mean);
  return (1 - c.mixture) * q * (log_q - log_mixture(log_p, log_q, c.mixture) - d.mean);
}

// Gradients of the student's rows and of its weight (undefined unless wanted) by cotangents g (N, 1).
std::pair<Tensor, Tensor> gradients_of(const Compared& c, const Sides& s, const Divergences& found, const Tensor& g,
                                       bool both) {
  const auto step = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& part) {
    const Tensor d = g * derivative(c, logits_of(c, s, part), found);
    Scanned next{{carry[0] + c.student.back(d, part[0])}, {}};
    if (both) next.ys.push_back(matmul(transpose(d), s.x));
    return next;
  };
  const Scanned all =
      c.stretches.over({s.weight, s.teacher_weight}, {zeros(s.x.shape(), s.x.dtype(), &s.x.device())}, step);
  return {all.carry[0], both ? cast(all.ys[0], s.weight.dtype()) : Tensor()};
}

// D of rows, (N, 1), whose gradient computes the logits again.
Tensor divergences_with_rule(const Compared& c, const Sides& sides) {
  const bool both = !c.student.packed && sides.weight.requires_grad();
  const auto f = custom_vjp(
      [c](const Tensor& x, const Tensor& w, const Tensor& tx, const Tensor& tw) {
        return divergences_of(c, {x, w, tx, tw}).values;
      },
      [c](const Tensor& x, const Tensor& w, const Tensor& tx, const Tensor& tw) {
        const Divergences d = divergences_of(c, {x, w, tx, tw});
        return std::pair(d.values, std::tuple(x, w, tx, tw, d.log_q, d.log_p, d.mean));
      },
      [c, both](const std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>& kept, const Tensor& g) {
        const auto& [x, w, tx, tw, log_q, log_p, mean] = kept;
        const auto [dx, dw] = gradients_of(c, {x, w, tx, tw}, {{}, log_q, log_p, mean}, g, both);
        return std::tuple(dx, dw, Tensor(), Tensor());
      });
  return f(sides.x, sides.weight, sides.teacher_x, sides.teacher_weight);
}

// The number of classes to compare.
int64_t checked_classes(const char* name, const DistillationOptions& o, int64_t student, int64_t teacher) {
  const int64_t shorter = std::min(student, teacher);
  if (!(o.temperature > 0) || std::isinf(o.temperature))
    throw ValueError(fmt::format("[{}] temperature is {}; it must be above 0", name, o.temperature));
  if (o.divergence == Divergence::jensen_shannon && !(o.mixture > 0 && o.mixture < 1))
    throw ValueError(fmt::format("[{}] mixture is {}; it must be between 0 and 1", name, o.mixture));
  if (o.classes < 0 || o.classes > shorter)
    throw ValueError(
        fmt::format("[{}] classes is {}; the vocabularies hold {} and {}", name, o.classes, student, teacher));
  if (o.stretch < 1) throw ValueError(fmt::format("[{}] stretch is {}; it must be at least 1", name, o.stretch));
  return o.classes > 0 ? o.classes : shorter;
}

Shape rows_of(const Tensor& x) { return x.shape().without(x.rank() - 1); }

void check_rows(const char* name, const Tensor& student, const Tensor& teacher) {
  for (const Tensor& x : {student, teacher}) {
    if (x.rank() < 1 || !is_float(x.dtype()))
      throw DTypeError(fmt::format("[{}] an argument is {} {}; expected floats (..., C)", name, x.shape().str(),
                                   name_of(x.dtype())));
  }
  if (rows_of(student) != rows_of(teacher))
    throw ShapeError(fmt::format("[{}] the student's are {}, the teacher's {}; expected as many rows", name,
                                 student.shape().str(), teacher.shape().str()));
}

void check_width(const char* whose, const ProjectedFeatures& of, int64_t width) {
  if (of.features.dim(-1) == width) return;
  throw ShapeError(fmt::format("[linear_distillation] the {}'s features are {}, the weight's rows have {} elements",
                               whose, of.features.shape().str(), width));
}

// P and Q over the temperature.
Tensor dense_divergence(const Tensor& q, const Tensor& p, const DistillationOptions& o) {
  const Tensor log_q = log_softmax(q), log_p = log_softmax(p);
  const auto mean = [](const Tensor& log_a, const Tensor& log_b) { return sum(exp(log_a) * (log_a - log_b), {-1}); };
  if (o.divergence == Divergence::forward) return mean(log_p, log_q);
  if (o.divergence == Divergence::reverse) return mean(log_q, log_p);
  const Tensor log_m = log_mixture(log_p, log_q, o.mixture);
  return o.mixture * mean(log_p, log_m) + (1 - o.mixture) * mean(log_q, log_m);
}

}  // namespace

Tensor distillation_loss(const Tensor& student, const Tensor& teacher, const DistillationOptions& o, Caller caller) {
  const CallerScope scope(caller);
  check_rows("distillation_loss", student, teacher);
  const int64_t classes = checked_classes("distillation_loss", o, student.dim(-1), teacher.dim(-1));
  const DType dtype = promote(promote(student.dtype(), teacher.dtype()), DType::f32);
  const auto softened = [&](const Tensor& logits) {
    return cast(slice(logits, logits.rank() - 1, {.stop = classes}), dtype) * (1 / o.temperature);
  };
  const Tensor found = dense_divergence(softened(student), softened(teacher.detach()), o);
  return found * (o.temperature * o.temperature);
}

Tensor linear_distillation(const ProjectedFeatures& student, const ProjectedFeatures& teacher,
                           const DistillationOptions& o, Caller caller) {
  const CallerScope scope(caller);
  constexpr const char* name = "linear_distillation";
  check_rows(name, student.features, teacher.features);
  const Tensor &weight = student.head.weight, teacher_weight = teacher.head.weight.detach();
  const int64_t classes = checked_classes(name, o, weight.dim(0), teacher_weight.dim(0));
  const ClassRows own{student.head.packed()}, other{teacher.head.packed()};
  const Compared c{own, other, {classes, o.stretch}, o.divergence, o.mixture};
  check_width("student", student, own.width(weight));
  check_width("teacher", teacher, other.width(teacher_weight));
  const DType dtype = own.dtype(student.features, weight);
  // Over the temperature are the features rather than the logits.
  const auto rows = [&](const Tensor& x, DType as) {
    const Tensor wide = reshape(cast(x, as), {rows_of(x).numel(), x.dim(-1)});
    return o.temperature == 1 ? wide : wide * (1 / o.temperature);
  };
  const Tensor found = divergences_with_rule(
      c, {rows(student.features, dtype), classes < weight.dim(0) ? slice(weight, 0, {.stop = classes}) : weight,
          rows(teacher.features.detach(), other.dtype(teacher.features, teacher_weight)), teacher_weight});
  return reshape(found, rows_of(student.features)) * (o.temperature * o.temperature);
}

}  // namespace heddle::nn
