// Parts, blocks and products of lists; runs; order statistics that leave NaN out.
//
// Purpose: the rest of PyTorch's functions of arrangement, composed as those of shape.h are, with its conventions
// (axes, views, host-sized results). Errors: ShapeError, DTypeError, ValueError. Thread safety: recording is per
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/core/functions/shape/ordered_sets.h"
#include "heddle/core/functions/shape/shape.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

struct Ordered;

Tensor select(const Tensor& x, int axis, int64_t index, Caller caller = Caller::current());  // one slice; the axis goes
Tensor narrow(const Tensor& x, int axis, int64_t start, int64_t length,
              Caller caller = Caller::current());  // [start, start + length)
std::vector<Tensor> tensor_split(const Tensor& x, int64_t parts, int axis = 0,
                                 Caller caller = Caller::current());  // the first n % parts are one longer
std::vector<Tensor> tensor_split(const Tensor& x, std::vector<int64_t> places, int axis = 0,
                                 Caller caller = Caller::current());  // cut before these indices
Tensor column_stack(std::span<const Tensor> parts,
                    Caller caller = Caller::current());  // vectors as columns, beside each other
Tensor block_diag(std::span<const Tensor> parts,
                  Caller caller = Caller::current());  // matrices (vectors are rows) along a diagonal, zeros elsewhere
Tensor cartesian_prod(std::span<const Tensor> vectors,
                      Caller caller = Caller::current());  // all tuples as rows; one vector stays itself
Tensor vander(TensorArg x, int64_t columns = -1,
              bool increasing =
                  false);  // powers of a vector's elements, columns - 1 to 0; -1: as many as elements. Integers stay
Tensor logspace(double start, double stop, int64_t count, double base = 10, DType dtype = DType::f32,
                DeviceContext* device = nullptr, Caller caller = Caller::current());
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, int axis = -1, Caller caller = Caller::current());
Tensor dist(const Tensor& a, const Tensor& b, double p = 2, Caller caller = Caller::current());  // norm(a - b)
Tensor msort(TensorArg x);                                                                       // sorted along axis 0
// The lower of two middle elements of those that are no NaN, and its index; NaN where there is none.
Ordered nanmedian(const Tensor& x, int axis = -1, bool keepdim = false, Caller caller = Caller::current());
// The most frequent value of each row, of several the smallest, and the index of its first occurrence; each NaN counts
// for itself.
Ordered mode(const Tensor& x, int axis = -1, bool keepdim = false, Caller caller = Caller::current());
// The subsets of `count` elements of a vector (n), in the order of their places, as rows; with replacement an element
// may stand in one more than once.
Tensor combinations(TensorArg x, int64_t count = 2, bool with_replacement = false);
// Runs of equal elements of the flat tensor: one value each, the number of its run for each element, lengths.
// Host-sized: observes the number of runs.
Unique unique_consecutive(TensorArg x);

}  // namespace heddle
