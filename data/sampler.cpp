#include "heddle/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/data/batcher.h"
#include "heddle/data/random.h"

namespace heddle::data {
namespace {

constexpr int64_t most_examples = std::numeric_limits<uint32_t>::max();  // of an epoch, whose order lies in memory

void check_examples(const char* who, int64_t examples) {
  if (examples < 0 || examples > most_examples)
    throw ValueError(fmt::format("[{}] {} examples cannot be meant; expected 0 to 2^32 - 1", who, examples));
}

class Sequential final : public Sampler {
 public:
  explicit Sequential(int64_t examples) : examples_(examples) { check_examples("sequential", examples); }
  int64_t size() const override { return examples_; }
  std::vector<int64_t> order(uint64_t) const override {
    std::vector<int64_t> all(static_cast<size_t>(examples_));
    std::iota(all.begin(), all.end(), int64_t{0});
    return all;
  }

 private:
  int64_t examples_;
};

class Shuffled final : public Sampler {
 public:
  Shuffled(int64_t examples, uint64_t seed) : examples_(examples), seed_(seed) { check_examples("shuffled", examples); }
  int64_t size() const override { return examples_; }
  std::vector<int64_t> order(uint64_t epoch) const override {
    const std::vector<uint32_t> all = shuffled_order(examples_, seed_, epoch);
    return {all.begin(), all.end()};
  }

 private:
  int64_t examples_;
  uint64_t seed_;
};

class Weighted final : public Sampler {
 public:
  Weighted(const std::vector<double>& weights, int64_t draws, uint64_t seed) : draws_(draws), seed_(seed) {
    double total = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!(weights[i] >= 0) || std::isinf(weights[i]))
        throw ValueError(fmt::format("[weighted] weight {} is {}; it must be finite and not negative", i, weights[i]));
      ends_.push_back(total += weights[i]);
    }
    if (!(total > 0)) throw ValueError("[weighted] all weights are 0");
    check_examples("weighted", draws);
  }
  int64_t size() const override { return draws_; }
  std::vector<int64_t> order(uint64_t epoch) const override {
    Random random(seed_, epoch, 0x7765'6967'6874'6564);
    std::vector<int64_t> all;
    for (int64_t i = 0; i < draws_; ++i) {
      const double at =
          (static_cast<double>(random.bits()) + static_cast<double>(random.bits()) * 0x1p-32) * 0x1p-32 * ends_.back();
      const auto found = std::upper_bound(ends_.begin(), ends_.end(), at);
      all.push_back(std::min<int64_t>(found - ends_.begin(), static_cast<int64_t>(ends_.size()) - 1));
    }
    return all;
  }

 private:
  std::vector<double> ends_;
  int64_t draws_;
  uint64_t seed_;
};

class Sharded final : public Sampler {
 public:
  Sharded(SamplerPtr of, int64_t shard, int64_t shards) : of_(std::move(of)), shard_(shard), shards_(shards) {
    if (shards < 1 || shard < 0 || shard >= shards)
      throw ValueError(fmt::format("[sharded] shard {} of {} shards; they count from 0", shard, shards));
  }
  int64_t size() const override { return ceil_div(of_->size(), shards_); }
  std::vector<int64_t> order(uint64_t epoch) const override {
    const std::vector<int64_t> all = of_->order(epoch);
    std::vector<int64_t> own;
    for (int64_t i = 0; i < size(); ++i)
      own.push_back(all[(static_cast<size_t>(i * shards_) + static_cast<size_t>(shard_)) % all.size()]);
    return own;
  }

 private:
  SamplerPtr of_;
  int64_t shard_, shards_;
};

}  // namespace

SamplerPtr sequential(int64_t examples) { return std::make_shared<Sequential>(examples); }
SamplerPtr shuffled(int64_t examples, uint64_t seed) { return std::make_shared<Shuffled>(examples, seed); }
SamplerPtr weighted(std::vector<double> weights, int64_t draws, uint64_t seed) {
  return std::make_shared<Weighted>(weights, draws, seed);
}
SamplerPtr sharded(SamplerPtr of, int64_t shard, int64_t shards) {
  return std::make_shared<Sharded>(std::move(of), shard, shards);
}

}  // namespace heddle::data
