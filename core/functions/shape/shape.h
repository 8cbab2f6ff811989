// Shapes, windows and picking: functions composed of movement, comparison and indexing.
//
// Purpose: what NumPy and PyTorch offer beside the primitives of movement.h and index.h, under PyTorch's names and
// with its meaning where the two differ. Views (reshape, permute, slice, expand) rather than copies where they exist;
// gradients of any order are those of the parts. Axes count from the end when negative. Writes with repeated indices
// are deterministic: the last one wins. "Host-sized": the shape depends on values, so the call observes its input (it
// waits for the device and cannot be part of a replayed step). Errors: ShapeError, DTypeError, ValueError. Thread
// safety: recording is per thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

// ---- repeated and joined
Tensor roll(const Tensor& x, std::vector<int64_t> shifts, std::vector<int> axes = {},
            Caller caller = Caller::current());  // no axes: of the flat tensor
Tensor roll(const Tensor& x, int64_t shift, int axis, Caller caller = Caller::current());
Tensor repeat(const Tensor& x, std::vector<int64_t> repeats,
              Caller caller = Caller::current());  // whole copies; at least one number per axis, as torch.Tensor.repeat
Tensor tile(const Tensor& x, std::vector<int64_t> repeats,
            Caller caller = Caller::current());  // the same, missing numbers are leading 1s
Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int> axis = {},
                         Caller caller = Caller::current());  // each element; no axis: flat
Tensor stack(std::span<const Tensor> parts, int axis = 0, Caller caller = Caller::current());  // along a new axis
inline Tensor stack(std::initializer_list<Tensor> parts, int axis = 0, Caller caller = Caller::current()) {
  return stack(std::span<const Tensor>(parts.begin(), parts.size()), axis, caller);
}
std::vector<Tensor> unstack(const Tensor& x, int axis = 0, Caller caller = Caller::current());
std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int axis = 0,
                          Caller caller = Caller::current());  // of ceil(n / chunks); perhaps fewer, as in PyTorch
Tensor hstack(std::span<const Tensor> parts, Caller caller = Caller::current());  // along axis 1; vectors along axis 0
Tensor vstack(std::span<const Tensor> parts, Caller caller = Caller::current());  // rows
Tensor dstack(std::span<const Tensor> parts, Caller caller = Caller::current());  // along axis 2
inline Tensor hstack(std::initializer_list<Tensor> parts, Caller caller = Caller::current()) {
  return hstack(std::span<const Tensor>(parts.begin(), parts.size()), caller);
}
inline Tensor vstack(std::initializer_list<Tensor> parts, Caller caller = Caller::current()) {
  return vstack(std::span<const Tensor>(parts.begin(), parts.size()), caller);
}
inline Tensor dstack(std::initializer_list<Tensor> parts, Caller caller = Caller::current()) {
  return dstack(std::span<const Tensor>(parts.begin(), parts.size()), caller);
}

// ---- axes
Tensor swapaxes(const Tensor& x, int axis0, int axis1, Caller caller = Caller::current());
Tensor moveaxis(const Tensor& x, std::vector<int> source, std::vector<int> destination,
                Caller caller = Caller::current());
Tensor moveaxis(const Tensor& x, int source, int destination, Caller caller = Caller::current());
Tensor flatten(const Tensor& x, int start = 0, int end = -1,
               Caller caller = Caller::current());  // axes start to end become one; a scalar gives (1)
Tensor unflatten(const Tensor& x, int axis, std::vector<int64_t> sizes,
                 Caller caller = Caller::current());  // one size may be -1
Tensor ravel(TensorArg x);
Tensor broadcast_to(const Tensor& x, const Shape& shape, Caller caller = Caller::current());
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Caller caller = Caller::current());
inline std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors, Caller caller = Caller::current()) {
  return broadcast_tensors(std::span<const Tensor>(tensors.begin(), tensors.size()), caller);
}
Tensor atleast_1d(TensorArg x);
Tensor atleast_2d(TensorArg x);
Tensor atleast_3d(TensorArg x);  // (n) gives (1, n, 1), (m, n) gives (m, n, 1)
enum class GridIndexing { ij, xy };
// Vectors (or scalars) of n0, n1, ...: each repeated to (n0, n1, ...); xy exchanges the first two axes.
std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, GridIndexing indexing = GridIndexing::ij,
                             Caller caller = Caller::current());
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors, GridIndexing indexing = GridIndexing::ij,
                                    Caller caller = Caller::current()) {
  return meshgrid(std::span<const Tensor>(vectors.begin(), vectors.size()), indexing, caller);
}
Tensor rot90(const Tensor& x, int64_t k = 1, std::vector<int> axes = {0, 1}, Caller caller = Caller::current());
Tensor fliplr(TensorArg x);  // axis 1
Tensor flipud(TensorArg x);  // axis 0

// ---- images and windows
Tensor pixel_shuffle(const Tensor& x, int64_t factor,
                     Caller caller = Caller::current());  // (..., C r r, H, W) to (..., C, H r, W r). Shi et al., 2016
Tensor pixel_unshuffle(const Tensor& x, int64_t factor, Caller caller = Caller::current());  // back
Tensor channel_shuffle(const Tensor& x, int64_t groups,
                       Caller caller = Caller::current());  // (N, C, ...). Zhang et al., "ShuffleNet", 2018
// Windows of `size` each `step` along an axis, which then counts them; their elements are a new last axis.
// torch.Tensor.unfold.
Tensor sliding_window(const Tensor& x, int axis, int64_t size, int64_t step = 1, Caller caller = Caller::current());
// Lists have two entries, or one for both.
struct UnfoldOptions {
  std::vector<int64_t> dilation = {1}, padding = {0}, stride = {1};
};
// Patches of images, (N, C, H, W) to (N, C kh kw, L): im2col, torch.nn.functional.unfold. fold() adds them up into
// images of `size`. N may be missing.
Tensor unfold(const Tensor& x, std::vector<int64_t> kernel, const UnfoldOptions& options = {},
              Caller caller = Caller::current());
Tensor fold(const Tensor& x, std::vector<int64_t> size, std::vector<int64_t> kernel, const UnfoldOptions& options = {},
            Caller caller = Caller::current());

// ---- picking. Indices are i32 or i64; negative ones count from the end; beyond that reads take the nearest and writes
// are left out.
Tensor index_select(const Tensor& x, int axis, const Tensor& indices,
                    Caller caller = Caller::current());  // indices (n)
// gather() whose other axes broadcast: out[i][j] = x[indices[i][j]][j] for axis 0.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, int axis, Caller caller = Caller::current());
// out = x; out[indices[i][j]][j] = values[i][j] for axis 0; other axes, and values, broadcast.
Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Tensor& values, int axis,
                      Caller caller = Caller::current());
// The same without broadcasting: indices no larger than source, and than x but along the axis. torch.scatter. No
// negative indices.
Tensor scatter(const Tensor& x, int axis, const Tensor& indices, const Tensor& source,
               Caller caller = Caller::current());
Tensor scatter(const Tensor& x, int axis, const Tensor& indices, double value, Caller caller = Caller::current());
// out = x; out[indices[0], indices[1], ...] = values: indices broadcast to one shape, values to that shape and the axes
// left over. accumulate adds: repeated picks add up. More writes: core/functions/shape/scatter.h.
Tensor index_put(const Tensor& x, std::span<const Tensor> indices, const Tensor& values, bool accumulate = false,
                 Caller caller = Caller::current());
inline Tensor index_put(const Tensor& x, std::initializer_list<Tensor> indices, const Tensor& values,
                        bool accumulate = false, Caller caller = Caller::current()) {
  return index_put(x, std::span<const Tensor>(indices.begin(), indices.size()), values, accumulate, caller);
}
Tensor index_fill(const Tensor& x, int axis, const Tensor& indices, double value, Caller caller = Caller::current());
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value,
                   Caller caller = Caller::current());  // bool mask that broadcasts to x; value in x's dtype
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value, Caller caller = Caller::current());
Tensor masked_select(TensorArg x,
                     const Tensor& mask);  // where the mask is true, in row-major order. Host-sized: observes the mask
Tensor nonzero(TensorArg x);               // (count, rank) i64, in row-major order. Host-sized: observes x

}  // namespace heddle
