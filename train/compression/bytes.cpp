#include "heddle/core/base/integers.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/compression/compression.h"
#include "heddle/train/compression/flat_parts.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

constexpr int64_t block = 512;  // elements with a scale of their own: 4 bytes beside 512

// i8 (.., block) and f32 (.., 1): their product is `x` but for rounding. A block with a NaN or an infinity has no
// scale, and all of it becomes NaN.
struct Quantized {
  Tensor values, scales;
  Tensor restored() const { return values.to(DType::f32) * scales; }
};

Quantized quantized(const Tensor& x) {
  const Tensor scales = max(abs(x), {-1}, true) / 127.0;
  return {round(x / where(scales == 0.0, ones_like(scales), scales)).to(DType::i8), scales};
}

class Bytes final : public Compression {
 public:
  Bytes(int ranks, DeviceContext& device) : ranks_(ranks), device_(device) {}

  bool takes(const Shape&) const override { return true; }
  std::vector<Route> routes() const override { return {Route::swap, Route::gather}; }

  std::vector<Tensor> send(size_t round, const std::vector<Tensor>& given) override {
    return round == 0 ? send_parts(given) : send_sums(given);
  }

  std::vector<Tensor> sums(const std::vector<Tensor>& brought) override {
    return parted(reshape(received(brought).restored(), Shape{ranks_ * blocks_ * block}), shapes_);
  }

 private:
  // Each rank's part of all elements.
  std::vector<Tensor> send_parts(const std::vector<Tensor>& given) {
    shapes_ = shapes_of(given);
    const Tensor list = joined(given);
    blocks_ = ceil_div(list.numel(), ranks_ * block);
    const Shape shape{ranks_, blocks_, block};
    if (!kept_.defined()) {
      kept_ = kept_zeros(shape, device_);
      kept_of_sums_ = kept_zeros(Shape{blocks_, block}, device_);
    }
    const Tensor padding = zeros(Shape{shape.numel() - list.numel()}, DType::f32, &device_);
    return keep(reshape(concat({list, padding}, 0), shape), kept_, Shape{ranks_, blocks_ * block},
                Shape{ranks_, blocks_});
  }

  std::vector<Tensor> send_sums(const std::vector<Tensor>& given) {
    return keep(sum(received(given).restored(), {0}), kept_of_sums_, Shape{blocks_ * block}, Shape{blocks_});
  }

  // What `x` and what was kept are in 8 bits; the rest is kept.
  static std::vector<Tensor> keep(const Tensor& x, Tensor& kept, const Shape& values, const Shape& scales) {
    const Tensor all = x + kept;
    const Quantized sent = quantized(all);
    kept.assign(all - sent.restored());
    return {reshape(sent.values, values), reshape(sent.scales, scales)};
  }

  Quantized received(const std::vector<Tensor>& brought) const {
    return {reshape(brought.at(0), Shape{ranks_, blocks_, block}), reshape(brought.at(1), Shape{ranks_, blocks_, 1})};
  }

  int64_t ranks_;
  DeviceContext& device_;
  std::vector<Shape> shapes_;
  int64_t blocks_ = 0;   // of a part
  Tensor kept_;          // (ranks, blocks, block)
  Tensor kept_of_sums_;  // (blocks, block), of this rank's part
};

}  // namespace

std::unique_ptr<Compression> make_bytes(int ranks, DeviceContext& device) {
  return std::make_unique<Bytes>(ranks, device);
}

}  // namespace heddle::train
