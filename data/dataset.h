// Datasets: where examples come from, by number or one after the other.
//
// Purpose: what data/loader.h reads. A map-style Dataset gives any example by its number; an IterableDataset gives a
// stream, for what can only be read in order. Transforms make new datasets of old ones:
//   auto train = transformed(images, {resize(64, 64), random_flip(), normalise(mean, deviation)});
// Invariants: an example is the same whichever thread asks for it: chance comes from the Random that is passed in,
// which belongs to its place in an epoch. Errors: IoError, ValueError, which reach who asks the loader. Thread safety:
// get() and open() are called from several threads at once; a stream is read by one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/data/array.h"
#include "heddle/data/random.h"

namespace heddle::data {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // 0 <= index < size().
  virtual Sample get(int64_t index, Random& random) const = 0;
};
using DatasetPtr = std::shared_ptr<const Dataset>;

class SampleStream {
 public:
  virtual ~SampleStream() = default;
  // The next example; nothing at the end.
  virtual std::optional<Sample> next() = 0;
  // Passes over as many, or to the end. A stream that can seek need not read them.
  virtual void skip(int64_t count);
};

class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  // From the beginning of an epoch, which may have an order of its own.
  virtual std::unique_ptr<SampleStream> open(uint64_t epoch) const = 0;
};
using IterableDatasetPtr = std::shared_ptr<const IterableDataset>;

// From an example to another.
using Transform = Callable<Sample(Sample sample, Random& random)>;

// Examples through the transforms, in order.
DatasetPtr transformed(DatasetPtr of, std::vector<Transform> transforms);
// Some examples of another, by number. ValueError for one that it does not have.
DatasetPtr subset(DatasetPtr of, std::vector<int64_t> indices);
// The first `count` examples, or all where there are no more or `count` is 0. ValueError for a negative one.
DatasetPtr first(DatasetPtr of, int64_t count);
// One after the other.
DatasetPtr concatenated(std::vector<DatasetPtr> parts);
// Parts of these shares (which add up to at most 1) of a shuffled order.
std::vector<DatasetPtr> random_split(DatasetPtr of, const std::vector<double>& shares, uint64_t seed = 0);
// Numbers of examples, ascending: of those of each label that share in a shuffled order, at least one and not all where
// there are two. ValueError for a share outside [0, 1) and a negative label.
std::vector<int64_t> stratified_share(const std::vector<int32_t>& labels, double share, uint64_t seed = 0);
// Arrays with the examples along their first dimension.
DatasetPtr from_arrays(Sample arrays);
// Examples that a function makes.
DatasetPtr generated(int64_t size, Callable<Sample(int64_t index, Random& random)> make);

}  // namespace heddle::data
