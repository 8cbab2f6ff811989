#include "heddle/train/recipes/length_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/data/array.h"
#include "heddle/data/buckets.h"
#include "heddle/data/chat_template.h"

namespace heddle::train {
namespace {

constexpr int64_t multiple = 8;  // of bucket lengths: few tokens of padding more, whole vectors and tiles

// Up to the last target that counts, in any row of the example; 1 where none does.
int64_t needed_length(const data::Array& targets) {
  const std::span<const int32_t> all = targets.as<int32_t>();
  const int64_t length = targets.shape[targets.shape.rank() - 1];
  int64_t needed = 1;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] != data::ignored_target) needed = std::max(needed, static_cast<int64_t>(i) % length + 1);
  }
  return needed;
}

class BucketSampler final : public data::Sampler {
 public:
  BucketSampler(std::vector<int64_t> needed, std::vector<int64_t> buckets, const LengthBucketOptions& options)
      : needed_(std::move(needed)), buckets_(std::move(buckets)), batch_(options.batch), seed_(options.seed) {}

  std::vector<int64_t> order(uint64_t epoch) const override {
    std::vector<int64_t> order, rest;
    for (const data::BucketBatch& b :
         data::bucketed_batches(needed_, buckets_, {.batch = batch_, .seed = seed_}, epoch)) {
      std::vector<int64_t>& list = std::ssize(b.items) == batch_ ? order : rest;
      list.insert(list.end(), b.items.begin(), b.items.end());
    }
    std::stable_sort(rest.begin(), rest.end(), [&](int64_t a, int64_t b) {
      return needed_[static_cast<size_t>(a)] < needed_[static_cast<size_t>(b)];
    });
    order.insert(order.end(), rest.begin(), rest.end());
    return order;
  }
  int64_t size() const override { return std::ssize(needed_); }

 private:
  std::vector<int64_t> needed_, buckets_;
  int64_t batch_;
  uint64_t seed_;
};

// The first `length` elements of each row of an array (..., T).
data::Array cut(const data::Array& rows, int64_t length) {
  const int axis = rows.shape.rank() - 1;
  const int64_t before = rows.shape[axis];
  Shape shape;
  for (int d = 0; d < axis; ++d) shape.push_back(rows.shape[d]);
  shape.push_back(length);
  data::Array made{rows.dtype, shape, {}};
  const auto step = static_cast<ptrdiff_t>(size_of(rows.dtype));
  made.bytes.reserve(static_cast<size_t>(shape.numel() * step));
  for (auto row = rows.bytes.begin(); row != rows.bytes.end(); row += before * step)
    made.bytes.insert(made.bytes.end(), row, row + length * step);
  return made;
}

}  // namespace

LengthBuckets length_buckets(const data::DatasetPtr& rows, const LengthBucketOptions& options) {
  if (options.count < 1)
    throw ValueError(fmt::format("[finetune] --buckets {}; there is at least one length of rows", options.count));
  std::vector<int64_t> needed;
  int64_t longest = 1;
  data::Random unused(0, 0, 0);  // rows hold nothing that is drawn
  for (int64_t i = 0; i < rows->size(); ++i) {
    const data::Sample row = rows->get(i, unused);
    needed.push_back(needed_length(row.at(1)));
    longest = row[1].shape[row[1].shape.rank() - 1];
  }
  LengthBuckets made;
  made.lengths = data::choose_buckets(needed, options.count, multiple);
  made.lengths.back() = std::min(made.lengths.back(), longest);
  double total = 0;
  for (const int64_t n : needed) total += static_cast<double>(made.lengths[data::bucket_of(made.lengths, n)]);
  made.mean_length = total / static_cast<double>(needed.size());
  made.sampler = std::make_shared<BucketSampler>(std::move(needed), made.lengths, options);
  made.collate = [lengths = made.lengths](std::span<const data::Sample> samples) {
    data::Sample batch = data::stack(samples);
    const int64_t length = lengths[data::bucket_of(lengths, needed_length(batch.at(1)))];
    for (data::Array& array : batch) array = cut(array, length);
    return batch;
  };
  return made;
}

}  // namespace heddle::train
