#include "heddle/nn/class_stretches.h"

#include <limits>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/packed.h"

namespace heddle::nn {

int64_t ClassRows::width(const Tensor& weight) const {
  const int64_t stored = weight.dim(1);
  return packed ? stored / block_of(*packed).bytes * block_of(*packed).elements : stored;
}

DType ClassRows::dtype(const Tensor& x, const Tensor& weight) const {
  return packed ? DType::f32 : promote(promote(x.dtype(), weight.dtype()), DType::f32);
}

Tensor ClassRows::logits(const Tensor& x, const Tensor& rows) const {
  return packed ? matmul_packed(x, rows, *packed) : cast(matmul(x, transpose(rows)), x.dtype());
}

Tensor ClassRows::back(const Tensor& g, const Tensor& rows) const {
  return packed ? packed::input_grad(g, rows, *packed) : cast(matmul(g, rows), g.dtype());
}

Tensor ClassRows::of(const Tensor& weight, const Tensor& targets) const {
  const Tensor rows = take(weight, targets, 0);
  return packed ? unpack_blocks(rows, *packed) : rows;
}

Scanned ClassStretches::over(const std::vector<Tensor>& weights, const std::vector<Tensor>& init,
                             const ScanBody& step) const {
  const int64_t whole = count / stretch, looped = whole * stretch;
  DeviceContext* device = &weights.at(0).device();
  Scanned all{init, {}};
  if (whole > 0) {
    std::vector<Tensor> xs;
    for (const Tensor& weight : weights)
      xs.push_back(reshape(slice(weight, 0, {.stop = looped}), {whole, stretch, weight.dim(1)}));
    xs.push_back(arange(0, static_cast<double>(looped), static_cast<double>(stretch), DType::i32, device));
    all = scan(step, init, xs);
    for (Tensor& y : all.ys) y = reshape(y, {looped, y.dim(2)});
  }
  if (looped == count) return all;
  std::vector<Tensor> last;
  for (const Tensor& weight : weights) last.push_back(slice(weight, 0, {.start = looped, .stop = count}));
  last.push_back(full({}, static_cast<double>(looped), DType::i32, device));
  Scanned rest = step(all.carry, last);
  for (size_t i = 0; i < rest.ys.size() && whole > 0; ++i) rest.ys[i] = concat({all.ys[i], rest.ys[i]}, 0);
  return rest;
}

RunningSums RunningSums::before(const Tensor& x) {
  const auto start = [&](double value) { return full({x.dim(0), 1}, value, x.dtype(), &x.device()); };
  return {start(-std::numeric_limits<double>::infinity()), start(0)};
}

RunningSums::Widened RunningSums::widened(const Tensor& logits) const {
  const Tensor next = maximum(most, max(logits, {1}, true)), kept = exp(most - next), shares = exp(logits - next);
  return {{next, sums * kept + sum(shares, {1}, true)}, kept, shares};
}

RunningSums RunningSums::with(const Tensor& logits) const { return widened(logits).sums; }

Tensor RunningSums::logarithms() const { return most + log(sums); }

}  // namespace heddle::nn
