#include "heddle/data/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/graph/philox.h"

namespace heddle::data {
namespace {

constexpr uint32_t shuffle_stream = 0x5348'5546;  // keeps these words apart from other uses of the same seed

const std::array<float, 256>& byte_to_float() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> t{};
    for (size_t i = 0; i < t.size(); ++i) t[i] = static_cast<float>(i) / 255.0f;
    return t;
  }();
  return table;
}

}  // namespace

std::vector<uint32_t> shuffled_order(int64_t items, uint64_t seed, uint64_t epoch) {
  if (items < 0 || items > std::numeric_limits<uint32_t>::max())
    throw ValueError(fmt::format("[shuffle] {} items cannot be shuffled", items));
  std::vector<uint32_t> order(static_cast<size_t>(items));
  std::iota(order.begin(), order.end(), 0u);
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  std::array<uint32_t, 4> words{};
  for (size_t left = order.size(), drawn = 0; left > 1; --left, ++drawn) {
    if (drawn % 4 == 0)
      words = philox({static_cast<uint32_t>(drawn / 4), static_cast<uint32_t>(epoch),
                      static_cast<uint32_t>(epoch >> 32), shuffle_stream},
                     key);
    const size_t other = static_cast<size_t>(uint64_t{words[drawn % 4]} * left >> 32);
    std::swap(order[left - 1], order[other]);
  }
  return order;
}

Batcher::Batcher(const ImageSet& set, const BatcherOptions& options) : set_(set), options_(options) {
  if (options.batch < 1)
    throw ValueError(fmt::format("[batcher] the batch size is {}, expected at least 1", options.batch));
  int64_t pixels = 0;
  const bool fits = set.rows >= 0 && set.columns >= 0 && !__builtin_mul_overflow(set.rows, set.columns, &pixels) &&
                    !__builtin_mul_overflow(pixels, set.size(), &pixels);
  if (!fits || static_cast<int64_t>(set.pixels.size()) != pixels) {
    throw ShapeError(fmt::format("[batcher] {} images of {} x {} pixels are not the {} bytes that the set has",
                                 set.size(), set.rows, set.columns, set.pixels.size()));
  }
  batches_ = options.drop_last ? set.size() / options.batch : ceil_div(set.size(), options.batch);
  if (batches_ == 0 && options.drop_last) {
    throw ValueError(
        fmt::format("[batcher] the batch size is {}, but there are only {} images", options.batch, set.size()));
  }
  start_epoch(0);
}

void Batcher::start_epoch(uint64_t epoch, int64_t first) {
  if (first < 0 || first > batches_)
    throw ValueError(fmt::format("[batcher] an epoch has {} batches, cannot start at {}", batches_, first));
  at_ = first;
  if (options_.shuffle) order_ = shuffled_order(set_.size(), options_.seed, epoch);
}

bool Batcher::next(Batch& out) {
  if (at_ >= batches_) return false;
  const int64_t begin = at_ * options_.batch, end = begin + std::min(options_.batch, set_.size() - begin);
  const size_t pixels = static_cast<size_t>(set_.image_size());
  out.size = end - begin;
  out.images.resize(static_cast<size_t>(out.size) * pixels);
  out.labels.resize(static_cast<size_t>(out.size));
  const auto& table = byte_to_float();
  for (int64_t i = begin; i < end; ++i) {
    const size_t item = options_.shuffle ? order_[static_cast<size_t>(i)] : static_cast<size_t>(i);
    const uint8_t* from = set_.pixels.data() + item * pixels;
    std::transform(from, from + pixels,
                   out.images.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(i - begin) * pixels),
                   [&table](uint8_t p) { return table[p]; });
    out.labels[static_cast<size_t>(i - begin)] = set_.labels[item];
  }
  ++at_;
  return true;
}

}  // namespace heddle::data
