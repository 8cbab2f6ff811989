// How rules and rewrites make vertices: shapes and dtypes follow, attributes are those that core/op/primitives.h says.
// Thread safety: pure functions of the graph they extend.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/ir/ir.h"

namespace heddle::rewrite {

int reshape(Graph& out, int x, const Shape& shape);
int permute(Graph& out, int x, const std::vector<int64_t>& order);
int slice(Graph& out, int x, int axis, int64_t start, int64_t count);
int cast(Graph& out, int x, DType dtype);
int full(Graph& out, const Shape& shape, DType dtype, double value);
int binary(Graph& out, const OpDef& op, int x, int y);
int gather(Graph& out, int x, int axis, int indices);
int expand(Graph& out, int x, const Shape& shape);
// A reduction over `axes` (ascending), which are dropped. The dtype is the input's, or i64 for argmax and argmin.
int reduce(Graph& out, const OpDef& op, int x, const std::vector<int64_t>& axes);

}  // namespace heddle::rewrite
