// The catalogue: every public function on tensors, with what a reader asks of it before using it.
//
// Purpose: one list for `heddle ops`, docs/ops.md and the tests that call every function. The lines stand in
// catalogue.inc; what the op table and the gradient rules know is taken from there. Invariants: the lines are those
// functions that headers of core/functions declare and that take or give tensors, each once, and their columns are
// true: tests/reference/catalogue_test.cpp compares both with headers and behaviour. Thread safety: built on first use
// and then only read.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/graph/autocast.h"
#include "heddle/core/op/op.h"

namespace heddle {

// Which element types the values (not indices, masks, lengths) of a function may have, and that of the first result.
// Values of different types promote first.
enum class TypeRule : uint8_t {
  any,       // all: the same
  numeric,   // all: the same; bool counts as i32. A fractional number beside integers makes f32 (docs/types.md)
  additive,  // all but bool: the same
  whole,     // integers: the same; bool counts as i32. Floats are refused
  bits,      // integers and bool: the same. Floats are refused
  floating,  // all: floats the same, others f32
  floats,    // floats: the same. Others are refused
  widened,   // all: f64 for f64, else f32
  total,     // all: floats the same, others i64
  truth,     // all: bool
  index,     // all: i64
  counts,    // integers and bool: i64, or the type of the weights
  asked,     // all, or none: the dtype that is asked for
  f32,       // takes no values: f32
  i64        // takes no values: i64
};
std::string_view name_of(TypeRule rule);
// One sentence for the reader: "floats; integers and bool as f32".
std::string_view describe(TypeRule rule);
// The type of the first result for values of type t, or nothing where they are refused. `asked`, `f32`, `i64`,
// `counts`: nothing for all.
std::optional<DType> result_type(TypeRule rule, DType t);
// The types that the values may have.
std::vector<DType> types_of(TypeRule rule);

enum class Made : uint8_t {
  row,      // one row of the op table, and views
  fused,    // one row that has a decomposition
  composed  // several rows
};
std::string_view name_of(Made made);

enum class Derivative : uint8_t {
  any_order,  // in the parameters `inputs`
  zero,       // 0 in the parameters `inputs`: constant but for jumps
  none        // `why`
};

struct PublicFunction {
  std::string_view name, family, meaning;
  Made made = Made::composed;
  TypeRule types = TypeRule::any;
  Derivative derivative = Derivative::any_order;
  Autocast autocast = Autocast::widest;  // what it does with values of f32, f16 and bf16 within an AutocastScope
  std::vector<std::string_view> inputs;  // parameters with a gradient, by their names in the header
  std::string_view why;                  // no gradient
  std::string_view no_vmap, no_jvp;      // why these refuse it; empty: they do not
  const OpDef* row = nullptr;            // of the op table, where it is made of one
};

// In the order of the table: families together.
std::span<const PublicFunction> catalogue();
// Null for an unknown name.
const PublicFunction* find_function(std::string_view name);
// Names of the catalogue that are nearest to an unknown one, at most three, the nearest first; none when nothing is
// near.
std::vector<std::string_view> similar_functions(std::string_view name);

}  // namespace heddle
