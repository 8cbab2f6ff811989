#include "heddle/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "heddle/core/base/error.h"
#include "heddle/data/batcher.h"

namespace heddle::data {
namespace {

void check_index(const char* who, int64_t index, int64_t size) {
  if (index < 0 || index >= size)
    throw ValueError(fmt::format("[{}] there is no example {} among {}", who, index, size));
}

class Transformed final : public Dataset {
 public:
  Transformed(DatasetPtr of, std::vector<Transform> transforms)
      : of_(std::move(of)), transforms_(std::move(transforms)) {}
  int64_t size() const override { return of_->size(); }
  Sample get(int64_t index, Random& random) const override {
    Sample sample = of_->get(index, random);
    for (const Transform& transform : transforms_) sample = transform(std::move(sample), random);
    return sample;
  }

 private:
  DatasetPtr of_;
  std::vector<Transform> transforms_;
};

class Subset final : public Dataset {
 public:
  Subset(DatasetPtr of, std::vector<int64_t> indices) : of_(std::move(of)), indices_(std::move(indices)) {
    for (const int64_t index : indices_) check_index("subset", index, of_->size());
  }
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Sample get(int64_t index, Random& random) const override {
    check_index("subset", index, size());
    return of_->get(indices_[static_cast<size_t>(index)], random);
  }

 private:
  DatasetPtr of_;
  std::vector<int64_t> indices_;
};

class First final : public Dataset {
 public:
  First(DatasetPtr of, int64_t count) : of_(std::move(of)), count_(count) {}
  int64_t size() const override { return count_; }
  Sample get(int64_t index, Random& random) const override {
    check_index("first", index, count_);
    return of_->get(index, random);
  }

 private:
  DatasetPtr of_;
  int64_t count_;
};

class Concatenated final : public Dataset {
 public:
  explicit Concatenated(std::vector<DatasetPtr> parts) : parts_(std::move(parts)) {
    for (const DatasetPtr& part : parts_) {
      int64_t end = 0;
      if (__builtin_add_overflow(size(), part->size(), &end))
        throw ValueError("[concatenated] the number of examples does not fit 64 bits");
      ends_.push_back(end);
    }
  }
  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Sample get(int64_t index, Random& random) const override {
    check_index("concatenated", index, size());
    const auto part = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    return parts_[part]->get(index - (part == 0 ? 0 : ends_[part - 1]), random);
  }

 private:
  std::vector<DatasetPtr> parts_;
  std::vector<int64_t> ends_;
};

class FromArrays final : public Dataset {
 public:
  explicit FromArrays(Sample arrays) : arrays_(std::move(arrays)) {
    if (arrays_.empty()) throw ShapeError("[from_arrays] there are no arrays");
    for (size_t k = 0; k < arrays_.size(); ++k) {
      const Shape& shape = arrays_[k].shape;
      arrays_[k].require_whole("from_arrays");
      if (shape.rank() == 0)
        throw ShapeError(fmt::format("[from_arrays] array {} is a scalar; examples lie along the first dimension", k));
      if (shape[0] != arrays_[0].shape[0])
        throw ShapeError(
            fmt::format("[from_arrays] array {} has {} examples, the first has {}", k, shape[0], arrays_[0].shape[0]));
      shapes_.emplace_back();
      for (int d = 1; d < shape.rank(); ++d) shapes_.back().push_back(shape[d]);
    }
  }
  int64_t size() const override { return arrays_[0].shape[0]; }
  Sample get(int64_t index, Random&) const override {
    check_index("from_arrays", index, size());
    Sample sample;
    for (size_t k = 0; k < arrays_.size(); ++k) {
      const size_t bytes = static_cast<size_t>(shapes_[k].numel()) * size_of(arrays_[k].dtype);
      const auto start = arrays_[k].bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(index) * bytes);
      sample.push_back({arrays_[k].dtype, shapes_[k], {start, start + static_cast<std::ptrdiff_t>(bytes)}});
    }
    return sample;
  }

 private:
  Sample arrays_;
  std::vector<Shape> shapes_;  // of one example
};

class Generated final : public Dataset {
 public:
  Generated(int64_t size, Callable<Sample(int64_t, Random&)> make) : size_(size), make_(std::move(make)) {}
  int64_t size() const override { return size_; }
  Sample get(int64_t index, Random& random) const override {
    check_index("generated", index, size_);
    return make_(index, random);
  }

 private:
  int64_t size_;
  Callable<Sample(int64_t, Random&)> make_;
};

}  // namespace

void SampleStream::skip(int64_t count) {
  while (count > 0 && next()) --count;
}

DatasetPtr transformed(DatasetPtr of, std::vector<Transform> transforms) {
  return std::make_shared<Transformed>(std::move(of), std::move(transforms));
}
DatasetPtr subset(DatasetPtr of, std::vector<int64_t> indices) {
  return std::make_shared<Subset>(std::move(of), std::move(indices));
}
DatasetPtr first(DatasetPtr of, int64_t count) {
  if (count < 0) throw ValueError(fmt::format("[first] {} examples cannot be meant", count));
  if (count == 0 || count >= of->size()) return of;
  return std::make_shared<First>(std::move(of), count);
}

DatasetPtr concatenated(std::vector<DatasetPtr> parts) { return std::make_shared<Concatenated>(std::move(parts)); }
DatasetPtr from_arrays(Sample arrays) { return std::make_shared<FromArrays>(std::move(arrays)); }

DatasetPtr generated(int64_t size, Callable<Sample(int64_t index, Random& random)> make) {
  if (size < 0) throw ValueError(fmt::format("[generated] the size is {}", size));
  return std::make_shared<Generated>(size, std::move(make));
}

std::vector<DatasetPtr> random_split(DatasetPtr of, const std::vector<double>& shares, uint64_t seed) {
  double total = 0;
  for (const double share : shares) {
    if (!(share >= 0)) throw ValueError(fmt::format("[random_split] a share is {}; it must not be negative", share));
    total += share;
  }
  if (total > 1 + 1e-9) throw ValueError(fmt::format("[random_split] the shares add up to {}, more than 1", total));
  if (of->size() > std::numeric_limits<uint32_t>::max())
    throw ValueError(fmt::format("[random_split] {} examples are more than 2^32 - 1", of->size()));
  const std::vector<uint32_t> order = shuffled_order(of->size(), seed, 0);
  std::vector<DatasetPtr> parts;
  double until = 0;
  size_t at = 0;
  for (const double share : shares) {
    until += share;
    const auto end =
        std::min(order.size(), static_cast<size_t>(std::llround(until * static_cast<double>(order.size()))));
    parts.push_back(subset(
        of, {order.begin() + static_cast<std::ptrdiff_t>(at), order.begin() + static_cast<std::ptrdiff_t>(end)}));
    at = end;
  }
  return parts;
}

std::vector<int64_t> stratified_share(const std::vector<int32_t>& labels, double share, uint64_t seed) {
  if (!(share >= 0 && share < 1))
    throw ValueError(fmt::format("[stratified_share] the share is {}, expected 0 to below 1", share));
  std::map<int32_t, std::vector<int64_t>> of_label;
  for (const uint32_t i : shuffled_order(static_cast<int64_t>(labels.size()), seed, 0)) {
    if (labels[i] < 0) throw ValueError(fmt::format("[stratified_share] label {} of example {}", labels[i], i));
    of_label[labels[i]].push_back(i);
  }
  std::vector<int64_t> taken;
  for (const auto& [label, order] : of_label) {
    const auto wanted = std::llround(share * static_cast<double>(order.size()));
    const auto most = static_cast<long long>(order.size()) - 1;
    const long long count = most < 1 || share == 0 ? 0 : std::clamp(wanted, 1LL, most);
    taken.insert(taken.end(), order.begin(), order.begin() + count);
  }
  std::ranges::sort(taken);
  return taken;
}

}  // namespace heddle::data
