// Pooling, padding and other modules without parameters over (N, C, spatial...).
//
// Purpose: the functions of core/functions: nn/pool.h, nn/image.h, shape/padding.h and shape/shape.h as parts of a
// Sequential, one line each. Lists have one entry for each spatial dimension, or one for all. Invariants: modules are
// handles (nn/module.h); their numbers are fixed. Errors: those of the functions, when a module is called. Thread
// safety: none.
#pragma once

#include <utility>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/bags.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

#define HEDDLE_POOL(Class, f)                                                         \
  class Class : public Module {                                                       \
   public:                                                                            \
    explicit Class(std::vector<int64_t> kernel, PoolOptions options = {})             \
        : Module(#Class), kernel_(std::move(kernel)), options_(std::move(options)) {} \
    Tensor forward(const Tensor& x) override { return f(x, kernel_, options_); }      \
                                                                                      \
   private:                                                                           \
    std::vector<int64_t> kernel_;                                                     \
    PoolOptions options_;                                                             \
  };
HEDDLE_POOL(MaxPool1d, max_pool1d)
HEDDLE_POOL(MaxPool2d, max_pool2d)
HEDDLE_POOL(MaxPool3d, max_pool3d)
HEDDLE_POOL(AvgPool1d, avg_pool1d)
HEDDLE_POOL(AvgPool2d, avg_pool2d)
HEDDLE_POOL(AvgPool3d, avg_pool3d)
#undef HEDDLE_POOL

#define HEDDLE_POOL(Class, f)                                                                \
  class Class : public Module {                                                              \
   public:                                                                                   \
    Class(double p, std::vector<int64_t> kernel, PoolOptions options = {})                   \
        : Module(#Class), p_(p), kernel_(std::move(kernel)), options_(std::move(options)) {} \
    Tensor forward(const Tensor& x) override { return f(x, p_, kernel_, options_); }         \
                                                                                             \
   private:                                                                                  \
    double p_;                                                                               \
    std::vector<int64_t> kernel_;                                                            \
    PoolOptions options_;                                                                    \
  };
HEDDLE_POOL(LPPool1d, lp_pool1d)
HEDDLE_POOL(LPPool2d, lp_pool2d)
HEDDLE_POOL(LPPool3d, lp_pool3d)
#undef HEDDLE_POOL

#define HEDDLE_POOL(Class, f)                                                             \
  class Class : public Module {                                                           \
   public:                                                                                \
    explicit Class(std::vector<int64_t> size) : Module(#Class), size_(std::move(size)) {} \
    Tensor forward(const Tensor& x) override { return f(x, size_); }                      \
                                                                                          \
   private:                                                                               \
    std::vector<int64_t> size_;                                                           \
  };
HEDDLE_POOL(AdaptiveAvgPool1d, adaptive_avg_pool1d)
HEDDLE_POOL(AdaptiveAvgPool2d, adaptive_avg_pool2d)
HEDDLE_POOL(AdaptiveAvgPool3d, adaptive_avg_pool3d)
HEDDLE_POOL(AdaptiveMaxPool1d, adaptive_max_pool1d)
HEDDLE_POOL(AdaptiveMaxPool2d, adaptive_max_pool2d)
HEDDLE_POOL(AdaptiveMaxPool3d, adaptive_max_pool3d)
#undef HEDDLE_POOL

// The last axes padded: one pair (before, after) for each, the last pair is that of the last axis.
class Pad : public Module {
 public:
  explicit Pad(std::vector<std::pair<int64_t, int64_t>> amounts, PadMode mode = PadMode::constant, double value = 0)
      : Pad("Pad", std::move(amounts), mode, value) {}
  Tensor forward(const Tensor& x) override;

 protected:
  Pad(const char* kind, std::vector<std::pair<int64_t, int64_t>> amounts, PadMode mode, double value)
      : Module(kind), amounts_(std::move(amounts)), mode_(mode), value_(value) {}

 private:
  std::vector<std::pair<int64_t, int64_t>> amounts_;
  PadMode mode_;
  double value_;
};
#define HEDDLE_PAD(Class, mode)                                                                                    \
  class Class : public Pad {                                                                                       \
   public:                                                                                                         \
    explicit Class(std::vector<std::pair<int64_t, int64_t>> amounts) : Pad(#Class, std::move(amounts), mode, 0) {} \
  };
HEDDLE_PAD(ZeroPad, PadMode::constant)
HEDDLE_PAD(ReflectionPad, PadMode::reflect)
HEDDLE_PAD(ReplicationPad, PadMode::replicate)
HEDDLE_PAD(CircularPad, PadMode::circular)
#undef HEDDLE_PAD

class Upsample : public Module {
 public:
  explicit Upsample(InterpolateOptions options) : Module("Upsample"), options_(std::move(options)) {}
  Tensor forward(const Tensor& x) override { return interpolate(x, options_); }

 private:
  InterpolateOptions options_;
};

#define HEDDLE_SHUFFLE(Class, f)                                        \
  class Class : public Module {                                         \
   public:                                                              \
    explicit Class(int64_t factor) : Module(#Class), factor_(factor) {} \
    Tensor forward(const Tensor& x) override { return f(x, factor_); }  \
                                                                        \
   private:                                                             \
    int64_t factor_;                                                    \
  };
HEDDLE_SHUFFLE(PixelShuffle, pixel_shuffle)
HEDDLE_SHUFFLE(PixelUnshuffle, pixel_unshuffle)
HEDDLE_SHUFFLE(ChannelShuffle, channel_shuffle)  // the number of groups
#undef HEDDLE_SHUFFLE

// Axis `axis` becomes several, of which one size may be -1.
class Unflatten : public Module {
 public:
  Unflatten(int axis, std::vector<int64_t> sizes) : Module("Unflatten"), axis_(axis), sizes_(std::move(sizes)) {}
  Tensor forward(const Tensor& x) override { return unflatten(x, axis_, sizes_); }

 private:
  int axis_;
  std::vector<int64_t> sizes_;
};

class LocalResponseNorm : public Module {
 public:
  explicit LocalResponseNorm(int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1)
      : Module("LocalResponseNorm"), size_(size), alpha_(alpha), beta_(beta), k_(k) {}
  Tensor forward(const Tensor& x) override { return local_response_norm(x, size_, alpha_, beta_, k_); }

 private:
  int64_t size_;
  double alpha_, beta_, k_;
};

}  // namespace heddle::nn
