// Collectives as functions of tensors, along named axes of a mesh, for programs that every rank runs (shard_map.h).
//
// Purpose: ranks that differ along the named axes alone are a group; its n ranks have places, row-major in the order of
// the mesh, whatever the order of the names. Names are those of JAX. A value varies along an axis, or is invariant, the
// same on all ranks along it (core/graph/mesh_scope.h): results say which. Operands that are invariant count as n equal
// ones. Every rank makes every call, in the same order, also where it does not use the result. Gradients, in reverse
// and forward mode, of any order: psum and pvary are each other's transposes, all_gather and reduce_scatter are,
// all_to_all is its own with the axes swapped, ppermute's sends back; pmax and pmin share evenly among equal ranks.
// vmap makes one call for all examples. Values pass through the host's memory. Errors: AxisError outside of shard_map,
// for an axis that is not there or named twice, and in the bodies of scan, cond and while_loop; those of the functions;
// of the other ranks, when a value is looked at: errors.h. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/core/graph/tensor.h"
#include "heddle/distributed/axis_names.h"

namespace heddle::distributed {

// Sum, mean, largest and smallest over the group: x.shape, invariant along the axes. f32, f16 and bf16 (added in f32),
// f64, i32 and i64; pmean: floating. The order of sums is fixed (reduce.h). DTypeError.
Tensor psum(const Tensor& x, const AxisNames& axes, Caller caller = Caller::current());
Tensor pmean(const Tensor& x, const AxisNames& axes, Caller caller = Caller::current());
Tensor pmax(const Tensor& x, const AxisNames& axes, Caller caller = Caller::current());
Tensor pmin(const Tensor& x, const AxisNames& axes, Caller caller = Caller::current());

// x of all ranks of the group, one after the other along `dim`, which grows n times; any dtype. Varies along the axes
// although all have the same: pmean of what follows is invariant. ShapeError.
Tensor all_gather(const Tensor& x, const AxisNames& axes, int dim = 0, Caller caller = Caller::current());

// The sum over the group, of which each rank gets its part of `dim`, which n divides. ShapeError, DTypeError.
Tensor reduce_scatter(const Tensor& x, const AxisNames& axes, int dim = 0, Caller caller = Caller::current());

// `split` is cut into n parts, one for each place; those that arrive stand one after the other along `join`. Any dtype.
// ShapeError where n does not divide it.
Tensor all_to_all(const Tensor& x, const AxisNames& axes, int split, int join, Caller caller = Caller::current());

// Each pair: the place that sends its x, the place that gets it; who gets none has zeros. Any dtype. ValueError for a
// place that is not there, sends twice or receives twice.
Tensor ppermute(const Tensor& x, const AxisNames& axes, const std::vector<std::pair<int64_t, int64_t>>& pairs,
                Caller caller = Caller::current());

// x, as a value that varies along the axes. Recorded by itself where invariant and varying values meet.
Tensor pvary(const Tensor& x, const AxisNames& axes, Caller caller = Caller::current());

// This rank's place in the group, i32 of rank 0, and the group's size. `device`: the default device unless given.
Tensor axis_index(const AxisNames& axes, DeviceContext* device = nullptr, Caller caller = Caller::current());
int64_t axis_size(const AxisNames& axes, Caller caller = Caller::current());

// Whether x may differ between ranks along any of the axes.
bool varies(const Tensor& x, const AxisNames& axes, Caller caller = Caller::current());

// A value that is there (a parameter's shard, a batch) varies along the axes from now on. ValueError for what was
// computed: pvary() that.
void set_varying(const Tensor& leaf, const AxisNames& axes, Caller caller = Caller::current());

}  // namespace heddle::distributed
