#include "heddle/core/base/integers.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/compression/compression.h"
#include "heddle/train/compression/eight_bits.h"
#include "heddle/train/compression/flat_parts.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

constexpr int64_t block = 512;  // elements with a scale of their own: 4 bytes beside 512

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
    const EightBits sent = in_eight_bits(all, -1);
    kept.assign(all - sent.restored());
    return {reshape(sent.values, values), reshape(sent.scales, scales)};
  }

  EightBits received(const std::vector<Tensor>& brought) const {
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
