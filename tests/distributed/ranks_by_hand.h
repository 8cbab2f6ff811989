// What collectives are, written out over the values of all ranks of a mesh in one list: the oracle of the tests of
// programs of ranks. It knows groups of ranks (Mesh::groups) and plain functions of tensors.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/philox.h"
#include "heddle/distributed/mesh.h"

namespace heddle::distributed::test {

using List = std::vector<Tensor>;
using Names = std::vector<std::string>;

// What each rank gets from the values of its group, in the order of places.
inline List by_groups(const Mesh& mesh, const Names& axes, const List& of_ranks,
                      const std::function<Tensor(const List& group, int64_t place)>& f) {
  List results(of_ranks.size());
  for (const std::vector<int>& ranks : mesh.groups(axes)) {
    List group;
    for (const int rank : ranks) group.push_back(of_ranks[static_cast<size_t>(rank)]);
    for (size_t place = 0; place < ranks.size(); ++place)
      results[static_cast<size_t>(ranks[place])] = f(group, static_cast<int64_t>(place));
  }
  return results;
}

inline Tensor total(const List& terms) {
  Tensor sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) sum = sum + terms[i];
  return sum;
}

inline Tensor largest(const List& values) {
  Tensor most = values[0];
  for (size_t i = 1; i < values.size(); ++i) most = maximum(most, values[i]);
  return most;
}

// Part `place` of n along an axis.
inline Tensor part_of(const Tensor& x, int axis, int64_t place, int64_t n) {
  const int64_t size = x.dim(axis) / n;
  return slice(x, axis, {place * size, (place + 1) * size, 1});
}

// Numbers in [-1, 1) that depend on the seed alone.
inline Tensor drawn(const Shape& shape, uint32_t seed, DType dtype, DeviceContext& device) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * philox_uniform({seed, 3, 1, 4}, i) - 1;
  return cast(Tensor::from_vector(values, shape, &device), dtype);
}

// One value above the other, a rank each.
inline Tensor stacked(const List& of_ranks) {
  List rows;
  for (const Tensor& value : of_ranks) rows.push_back(unsqueeze(value, 0));
  return concat(rows, 0);
}

}  // namespace heddle::distributed::test
