#include "heddle/nn/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/shape/pick.h"

namespace heddle::nn {
namespace {

constexpr int64_t most_open = 256;
constexpr double none = std::numeric_limits<double>::quiet_NaN();

// Uploaded rather than recorded zeros, so that every add() has one structure.
Tensor counter(int64_t count, DeviceContext* device) {
  return Tensor::from_vector(std::vector<int32_t>(static_cast<size_t>(count)), Shape{count}, device);
}

void check_labels(const char* who, const Tensor& labels) {
  if (!is_integer(labels.dtype()))
    throw DTypeError(fmt::format("[{}] labels are {}, expected integers", who, name_of(labels.dtype())));
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? none : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

// ---- Mean

Mean::Mean(DeviceRef device) : sum_(Tensor::from_vector(std::vector<float>{0}, Shape{}, device)) {}

void Mean::add(const Tensor& value, double weight, Caller caller) {
  const CallerScope scope(caller);
  if (value.rank() != 0)
    throw ShapeError(
        fmt::format("[Mean] the value is {}, expected a scalar; did you mean mean(x)?", value.shape().str()));
  if (!(weight >= 0) || std::isinf(weight))
    throw ValueError(fmt::format("[Mean] the weight is {}; it must be finite and not negative", weight));
  const NoGradScope no_grad;
  sum_.assign(sum_ +
              value.to(sum_.device()).to(DType::f32) * Tensor::host_scalar(static_cast<float>(weight), &sum_.device()));
  weight_ += weight;
  if (++open_ == most_open) fold();
}

void Mean::fold() const {
  if (open_ == 0) return;
  folded_ += sum_.item();
  open_ = 0;
  sum_ = Tensor::from_vector(std::vector<float>{0}, Shape{}, &sum_.device());
}

double Mean::value() const {
  fold();
  return weight_ == 0 ? none : folded_ / weight_;
}
double Mean::perplexity() const { return std::exp(value()); }

void Mean::reset() {
  fold();
  folded_ = weight_ = 0;
}

// ---- ConfusionMatrix

ConfusionMatrix::ConfusionMatrix(int64_t classes, DeviceRef device) : classes_(classes) {
  if (classes < 1 || classes > 32768)
    throw ValueError(fmt::format("[ConfusionMatrix] classes is {}; it must be in [1, 32768]", classes));
  counts_ = counter(classes * classes, device);
}

void ConfusionMatrix::add(const Tensor& predicted, const Tensor& labels, Caller caller) {
  const CallerScope scope(caller);
  check_labels("ConfusionMatrix", labels);
  check_labels("ConfusionMatrix", predicted);
  if (predicted.shape() != labels.shape()) {
    throw ShapeError(fmt::format("[ConfusionMatrix] predictions are {}, labels {}; did you mean argmax(scores, 1)?",
                                 predicted.shape().str(), labels.shape().str()));
  }
  const NoGradScope no_grad;
  const Tensor p = build::narrowed(flatten(predicted), classes_), l = build::narrowed(flatten(labels), classes_);
  const auto inside = [&](const Tensor& x) { return logical_and(x >= 0, x < classes_); };
  const Tensor known = logical_and(inside(p), inside(l));
  const Tensor cell = where(known, l * static_cast<double>(classes_) + p, zeros_like(p));
  const Tensor now = bincount(cast(cell, DType::i32), cast(known, DType::f32), classes_ * classes_);
  counts_.assign(counts_ + cast(now, DType::i32));
}

std::vector<std::vector<int64_t>> ConfusionMatrix::counts() const {
  const std::vector<int32_t> flat = counts_.to_vector<int32_t>();
  const auto n = static_cast<size_t>(classes_);
  std::vector<std::vector<int64_t>> all(n);
  for (size_t i = 0; i < n; ++i)
    all[i].assign(flat.begin() + static_cast<std::ptrdiff_t>(i * n),
                  flat.begin() + static_cast<std::ptrdiff_t>((i + 1) * n));
  return all;
}

namespace {

struct Sums {
  std::vector<int64_t> right, predicted, labelled;
};

Sums sums_of(const std::vector<std::vector<int64_t>>& counts) {
  const size_t n = counts.size();
  Sums s{std::vector<int64_t>(n), std::vector<int64_t>(n), std::vector<int64_t>(n)};
  for (size_t i = 0; i < n; ++i) {
    s.right[i] = counts[i][i];
    for (size_t j = 0; j < n; ++j) {
      s.labelled[i] += counts[i][j];
      s.predicted[j] += counts[i][j];
    }
  }
  return s;
}

}  // namespace

double ConfusionMatrix::accuracy() const {
  const Sums s = sums_of(counts());
  int64_t right = 0, all = 0;
  for (size_t i = 0; i < s.right.size(); ++i) {
    right += s.right[i];
    all += s.labelled[i];
  }
  return share(right, all);
}

std::vector<double> ConfusionMatrix::precision() const {
  const Sums s = sums_of(counts());
  std::vector<double> all;
  for (size_t i = 0; i < s.right.size(); ++i) all.push_back(share(s.right[i], s.predicted[i]));
  return all;
}

std::vector<double> ConfusionMatrix::recall() const {
  const Sums s = sums_of(counts());
  std::vector<double> all;
  for (size_t i = 0; i < s.right.size(); ++i) all.push_back(share(s.right[i], s.labelled[i]));
  return all;
}

// 2 P R / (P + R) is 2 right / (predicted + labelled).
std::vector<double> ConfusionMatrix::f1() const {
  const Sums s = sums_of(counts());
  std::vector<double> all;
  for (size_t i = 0; i < s.right.size(); ++i) all.push_back(share(2 * s.right[i], s.predicted[i] + s.labelled[i]));
  return all;
}

double ConfusionMatrix::macro_f1() const {
  double total = 0;
  int64_t known = 0;
  for (const double f : f1()) {
    if (std::isnan(f)) continue;
    total += f;
    ++known;
  }
  return known == 0 ? none : total / static_cast<double>(known);
}

void ConfusionMatrix::reset() { counts_ = counter(classes_ * classes_, &counts_.device()); }

// ---- TopK

TopK::TopK(int64_t k, DeviceRef device) : k_(k), right_(counter(1, device)) {
  if (k < 1) throw ValueError(fmt::format("[TopK] k is {}; it must be at least 1", k));
}

void TopK::add(const Tensor& scores, const Tensor& labels, Caller caller) {
  const CallerScope scope(caller);
  check_labels("TopK", labels);
  if (scores.rank() != 2 || labels.rank() != 1 || labels.shape()[0] != scores.shape()[0]) {
    throw ShapeError(fmt::format("[TopK] scores are {}, labels {}; expected (N, classes) and (N)", scores.shape().str(),
                                 labels.shape().str()));
  }
  if (k_ > scores.shape()[1]) throw ValueError(fmt::format("[TopK] k is {}, of {} classes", k_, scores.shape()[1]));
  const NoGradScope no_grad;
  const Tensor best = topk(scores, k_, 1).indices;  // (N, k)
  const Tensor hit = any(cast(best, DType::i32) == unsqueeze(build::narrowed(labels, scores.dim(1)), 1), {1});
  right_.assign(right_ + reshape(cast(sum(cast(hit, DType::f32)), DType::i32), Shape{1}));
  seen_ += labels.numel();
}

double TopK::value() const { return share(static_cast<int64_t>(right_.to_vector<int32_t>()[0]), seen_); }

void TopK::reset() {
  right_ = counter(1, &right_.device());
  seen_ = 0;
}

}  // namespace heddle::nn
