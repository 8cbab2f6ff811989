// Emitter: casts, and the rounding of 16-bit values that a kernel goes on with.
#include <fmt/format.h>

#include "heddle/core/lower/emit.h"
#include "heddle/core/lower/emit_text.h"

namespace heddle {

std::string Emitter::round_to(DType dtype, const std::string& text) {
  uses_round_ = true;
  return fmt::format("{}({})", dtype == DType::f16 ? "t_round_f16" : "t_round_bf16", text);
}

std::string_view Emitter::type_of(DType dtype) const {
  return moves_bits() && is_half(dtype) ? "int" : dialect_type(dtype);
}

std::string Emitter::literal(double value, DType dtype) const {
  if (!moves_bits() || !is_half(dtype)) return dialect_literal(value, dtype);
  uint16_t bits = 0;
  store_element(&bits, dtype, 0, value);
  return std::to_string(bits);
}

std::string Emitter::as_stored(int id, const std::string& text) {
  return halves_.rounds(id) ? round_to(graph().nodes[id].dtype, text) : text;
}

std::string Emitter::compute_cast(int id, DType from, const std::string& x) {
  const IrNode& node = graph().nodes[id];
  if (is_float(from) && is_integer(node.dtype)) {
    saturating_.emplace(arith(from), node.dtype);
    return declare(node.dtype, fmt::format("{}({})", saturating_name(arith(from), node.dtype), x));
  }
  const bool same = arith(from) == arith(node.dtype);
  const bool widened = arith(node.dtype) == DType::i64 && is_integer(from);
  std::string text = same      ? x
                     : widened ? fmt::format("WIDEN({})", x)
                               : fmt::format("CAST({}, {})", dialect_type(node.dtype), x);
  if (halves_.rounds_cast(id)) text = round_to(node.dtype, text);  // else the store rounds
  if (is_integer(node.dtype)) text = wrap_narrow(text, node.dtype);
  return text == x ? x : declare(node.dtype, text);
}

}  // namespace heddle
