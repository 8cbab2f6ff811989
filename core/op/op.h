// OpDef: one row of the op table. Everything core, autograd, tests and tools know about an op hangs on its row.
//
// Purpose: an op is data. Shape rules, lowering and test generation hang on the kind; an elementwise op is one row in
// core/op/elementwise.inc and one row in autograd. A backend never sees an op's name.
// Invariants: rows are immutable, made once, and their addresses are stable, so ops are compared by pointer.
// Thread safety: the table is built on first use and then only read.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/shape.h"

namespace heddle {

class Tensor;
struct Node;

enum class OpKind : uint8_t {
  leaf,         // a value that is there: storage or a small host value
  constant,     // full, iota
  elementwise,  // out[i] = f(a[i], b[i], c[i])
  reduce,       // sum, max, ... over attrs.ints (sorted axes); the axes are dropped from the shape
  movement,     // reshape, permute, expand, slice, flip, pad, concat
  index,        // take, gather
  contraction,  // matmul
  body,         // one hand-written body of shaders/: its lowering is a line in core/lower/body_lowering.cpp
  random,       // counter-based bits
  fused,        // has a decomposition into the kinds above
  effect,       // assign
  collective    // made by the ranks along axes of a mesh together; core/graph/collective.h
};
std::string_view name_of(OpKind kind);

// Which input dtypes an elementwise row takes and what it gives; the public function casts before it makes the node.
enum class DTypeRule : uint8_t {
  floating,  // floats; integers and bool are cast to f32 first; result is the input's dtype
  numeric,   // any dtype but bool (bool is cast to i32 first); result is the input's dtype
  compare,   // any dtype; result is bool
  logical,   // bool (others are cast to bool first); result is bool
  whole,     // integers; bool is cast to i32 first, floats are refused; result is the input's dtype
  test,      // floats in, bool out (isnan, isinf)
  any        // where, cast: see the row
};

// In which dtype a function takes values of f32, f16 or bf16 within an AutocastScope (core/graph/autocast.h).
enum class Autocast : uint8_t {
  widest,  // the promoted dtype of what it is given, as outside
  low,     // the scope's: products, which do much work for each byte of their result and sum in f32 whatever they read
  f32      // sums of many numbers, and functions that leave the range of 16 bits or lose digits in them
};
std::string_view name_of(Autocast policy);

// Which numbers a row keeps in its Attrs; core/op/attrs.h gives them names, and fits() checks them.
enum class AttrsForm : uint8_t {
  free,  // the row's own matter, or none
  none,
  axis,
  axes,
  order,
  slice,
  before,
  conv,
  attention,
  scan,
  sort,
  merge,
  triangle,
  collective
};

// Where a driver's compiler takes an elementwise result for a constant although a NaN or infinity among the operands
// makes it NaN: beside a factor 0 (x * 0), or where both operands are one value (x - x, x / x).
enum class Folded : uint8_t { never, by_zero, by_itself };

// Axes of a mesh, as bits by their number (core/graph/mesh_scope.h).
using AxisMask = uint32_t;

// Attributes of a node; core/op/attrs.h reads and writes them by name. Part of the structural key.
struct Attrs {
  std::vector<int64_t> ints;
  double real = 0;
  double real2 = 0;
  bool operator==(const Attrs&) const = default;
};

// Values of one element during reference evaluation: floats as double, integers and bool as int64.
using HostFloat = double (*)(double x, double y, double z);
using HostInt = int64_t (*)(int64_t x, int64_t y, int64_t z);

struct OpDef {
  std::string_view name;
  OpKind kind = OpKind::elementwise;
  int arity = 1;  // -1: any number
  DTypeRule rule = DTypeRule::floating;
  Autocast autocast = Autocast::widest;
  std::string_view doc;  // one line with the formula
  // elementwise only: the dialect's expression over x, y, z, and the host references.
  std::string_view dialect;
  HostFloat host_float = nullptr;
  HostInt host_int = nullptr;   // null where the op takes no integers
  int cost = 1;                 // relative cost of recomputing one element: 1 = an add, 10 = a transcendental
  bool transcendental = false;  // needs Caps::f64_math in f64
  Folded folded = Folded::never;
  // fused only: the same value from simpler ops.
  Tensor (*decompose)(const Node& node) = nullptr;
  AttrsForm attrs = AttrsForm::free;
  uint64_t id = 0;  // what keys know of the row: a hash of its name, of a user's of all it was defined by
};

// The row with that name; ValueError for an unknown one.
const OpDef& op(std::string_view name);
const OpDef* find_op(std::string_view name);
// All rows, in a stable order (kinds together).
std::span<const OpDef* const> all_ops();

}  // namespace heddle
