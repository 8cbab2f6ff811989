#include "heddle/nn/pool.h"

#include <fmt/format.h>

namespace heddle::nn {

#define HEDDLE_POOL(Class, f)                                                       \
  Class::Class(std::vector<int64_t> kernel, PoolOptions options)                    \
      : Module(#Class), kernel_(std::move(kernel)), options_(std::move(options)) {} \
  Tensor Class::forward(const Tensor& x) { return f(x, kernel_, options_); }
HEDDLE_POOL(MaxPool1d, max_pool1d)
HEDDLE_POOL(MaxPool2d, max_pool2d)
HEDDLE_POOL(MaxPool3d, max_pool3d)
HEDDLE_POOL(AvgPool1d, avg_pool1d)
HEDDLE_POOL(AvgPool2d, avg_pool2d)
HEDDLE_POOL(AvgPool3d, avg_pool3d)
#undef HEDDLE_POOL

#define HEDDLE_POOL(Class, f)                                                              \
  Class::Class(double p, std::vector<int64_t> kernel, PoolOptions options)                 \
      : Module(#Class), p_(p), kernel_(std::move(kernel)), options_(std::move(options)) {} \
  Tensor Class::forward(const Tensor& x) { return f(x, p_, kernel_, options_); }
HEDDLE_POOL(LPPool1d, lp_pool1d)
HEDDLE_POOL(LPPool2d, lp_pool2d)
HEDDLE_POOL(LPPool3d, lp_pool3d)
#undef HEDDLE_POOL

#define HEDDLE_POOL(Class, f)                                                         \
  Class::Class(std::vector<int64_t> size) : Module(#Class), size_(std::move(size)) {} \
  Tensor Class::forward(const Tensor& x) { return f(x, size_); }
HEDDLE_POOL(AdaptiveAvgPool1d, adaptive_avg_pool1d)
HEDDLE_POOL(AdaptiveAvgPool2d, adaptive_avg_pool2d)
HEDDLE_POOL(AdaptiveAvgPool3d, adaptive_avg_pool3d)
HEDDLE_POOL(AdaptiveMaxPool1d, adaptive_max_pool1d)
HEDDLE_POOL(AdaptiveMaxPool2d, adaptive_max_pool2d)
HEDDLE_POOL(AdaptiveMaxPool3d, adaptive_max_pool3d)
#undef HEDDLE_POOL

Pad::Pad(std::vector<std::pair<int64_t, int64_t>> amounts, PadMode mode, double value)
    : Pad("Pad", std::move(amounts), mode, value) {}
Pad::Pad(const char* kind, std::vector<std::pair<int64_t, int64_t>> amounts, PadMode mode, double value)
    : Module(kind), amounts_(std::move(amounts)), mode_(mode), value_(value) {}
Tensor Pad::forward(const Tensor& x) {
  if (static_cast<int>(amounts_.size()) > x.rank())
    throw ShapeError(fmt::format("[{}] {} pairs of amounts for x {}", kind(), amounts_.size(), x.shape().str()));
  std::vector<std::pair<int64_t, int64_t>> all(static_cast<size_t>(x.rank()) - amounts_.size(), {0, 0});
  all.insert(all.end(), amounts_.begin(), amounts_.end());
  return mode_ == PadMode::constant ? pad(x, all, value_) : pad(x, all, mode_);
}

#define HEDDLE_PAD(Class, mode) \
  Class::Class(std::vector<std::pair<int64_t, int64_t>> amounts) : Pad(#Class, std::move(amounts), mode, 0) {}
HEDDLE_PAD(ZeroPad, PadMode::constant)
HEDDLE_PAD(ReflectionPad, PadMode::reflect)
HEDDLE_PAD(ReplicationPad, PadMode::replicate)
HEDDLE_PAD(CircularPad, PadMode::circular)
#undef HEDDLE_PAD

Upsample::Upsample(InterpolateOptions options) : Module("Upsample"), options_(std::move(options)) {}
Tensor Upsample::forward(const Tensor& x) { return interpolate(x, options_); }

#define HEDDLE_SHUFFLE(Class, f)                                    \
  Class::Class(int64_t factor) : Module(#Class), factor_(factor) {} \
  Tensor Class::forward(const Tensor& x) { return f(x, factor_); }
HEDDLE_SHUFFLE(PixelShuffle, pixel_shuffle)
HEDDLE_SHUFFLE(PixelUnshuffle, pixel_unshuffle)
HEDDLE_SHUFFLE(ChannelShuffle, channel_shuffle)
#undef HEDDLE_SHUFFLE

Unflatten::Unflatten(int axis, std::vector<int64_t> sizes)
    : Module("Unflatten"), axis_(axis), sizes_(std::move(sizes)) {}
Tensor Unflatten::forward(const Tensor& x) { return unflatten(x, axis_, sizes_); }

LocalResponseNorm::LocalResponseNorm(int64_t size, double alpha, double beta, double k)
    : Module("LocalResponseNorm"), size_(size), alpha_(alpha), beta_(beta), k_(k) {}
Tensor LocalResponseNorm::forward(const Tensor& x) { return local_response_norm(x, size_, alpha_, beta_, k_); }

}  // namespace heddle::nn
