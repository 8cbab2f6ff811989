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

#define HEDDLE_POOL(Class)                                                 \
  class Class : public Module {                                            \
   public:                                                                 \
    explicit Class(std::vector<int64_t> kernel, PoolOptions options = {}); \
    Tensor forward(const Tensor& x) override;                              \
                                                                           \
   private:                                                                \
    std::vector<int64_t> kernel_;                                          \
    PoolOptions options_;                                                  \
  };
HEDDLE_POOL(MaxPool1d)
HEDDLE_POOL(MaxPool2d)
HEDDLE_POOL(MaxPool3d)
HEDDLE_POOL(AvgPool1d)
HEDDLE_POOL(AvgPool2d)
HEDDLE_POOL(AvgPool3d)
#undef HEDDLE_POOL

#define HEDDLE_POOL(Class)                                                  \
  class Class : public Module {                                             \
   public:                                                                  \
    Class(double p, std::vector<int64_t> kernel, PoolOptions options = {}); \
    Tensor forward(const Tensor& x) override;                               \
                                                                            \
   private:                                                                 \
    double p_;                                                              \
    std::vector<int64_t> kernel_;                                           \
    PoolOptions options_;                                                   \
  };
HEDDLE_POOL(LPPool1d)
HEDDLE_POOL(LPPool2d)
HEDDLE_POOL(LPPool3d)
#undef HEDDLE_POOL

#define HEDDLE_POOL(Class)                     \
  class Class : public Module {                \
   public:                                     \
    explicit Class(std::vector<int64_t> size); \
    Tensor forward(const Tensor& x) override;  \
                                               \
   private:                                    \
    std::vector<int64_t> size_;                \
  };
HEDDLE_POOL(AdaptiveAvgPool1d)
HEDDLE_POOL(AdaptiveAvgPool2d)
HEDDLE_POOL(AdaptiveAvgPool3d)
HEDDLE_POOL(AdaptiveMaxPool1d)
HEDDLE_POOL(AdaptiveMaxPool2d)
HEDDLE_POOL(AdaptiveMaxPool3d)
#undef HEDDLE_POOL

// The last axes padded: one pair (before, after) for each, the last pair is that of the last axis.
class Pad : public Module {
 public:
  explicit Pad(std::vector<std::pair<int64_t, int64_t>> amounts, PadMode mode = PadMode::constant, double value = 0);
  Tensor forward(const Tensor& x) override;

 protected:
  Pad(const char* kind, std::vector<std::pair<int64_t, int64_t>> amounts, PadMode mode, double value);

 private:
  std::vector<std::pair<int64_t, int64_t>> amounts_;
  PadMode mode_;
  double value_;
};
#define HEDDLE_PAD(Class)                                             \
  class Class : public Pad {                                          \
   public:                                                            \
    explicit Class(std::vector<std::pair<int64_t, int64_t>> amounts); \
  };
HEDDLE_PAD(ZeroPad)
HEDDLE_PAD(ReflectionPad)
HEDDLE_PAD(ReplicationPad)
HEDDLE_PAD(CircularPad)
#undef HEDDLE_PAD

class Upsample : public Module {
 public:
  explicit Upsample(InterpolateOptions options);
  Tensor forward(const Tensor& x) override;

 private:
  InterpolateOptions options_;
};

#define HEDDLE_SHUFFLE(Class)                 \
  class Class : public Module {               \
   public:                                    \
    explicit Class(int64_t factor);           \
    Tensor forward(const Tensor& x) override; \
                                              \
   private:                                   \
    int64_t factor_;                          \
  };
HEDDLE_SHUFFLE(PixelShuffle)
HEDDLE_SHUFFLE(PixelUnshuffle)
HEDDLE_SHUFFLE(ChannelShuffle)  // the number of groups
#undef HEDDLE_SHUFFLE

// Axis `axis` becomes several, of which one size may be -1.
class Unflatten : public Module {
 public:
  Unflatten(int axis, std::vector<int64_t> sizes);
  Tensor forward(const Tensor& x) override;

 private:
  int axis_;
  std::vector<int64_t> sizes_;
};

class LocalResponseNorm : public Module {
 public:
  explicit LocalResponseNorm(int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1);
  Tensor forward(const Tensor& x) override;

 private:
  int64_t size_;
  double alpha_, beta_, k_;
};

}  // namespace heddle::nn
