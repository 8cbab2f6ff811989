#include "heddle/core/graph/autocast.h"

#include <fmt/format.h>

#include <utility>

#include "heddle/core/base/error.h"

namespace heddle {
namespace {

thread_local std::optional<DType> low_dtype;

DType checked(DType low) {
  if (!is_half(low))
    throw DTypeError(
        fmt::format("[AutocastScope] takes f16 or bf16, not {}; AutocastScope::off() switches it off", name_of(low)));
  return low;
}

}  // namespace

AutocastScope::AutocastScope(DType low) : AutocastScope(std::optional(checked(low))) {}
AutocastScope::AutocastScope(std::optional<DType> low) : before_(std::exchange(low_dtype, low)) {}
AutocastScope::~AutocastScope() { low_dtype = before_; }
std::optional<DType> AutocastScope::active() { return low_dtype; }

DType autocast_dtype(Autocast policy, DType t) {
  if (!low_dtype || policy == Autocast::widest || (t != DType::f32 && !is_half(t))) return t;
  return policy == Autocast::low ? *low_dtype : DType::f32;
}
DType autocast_dtype(const OpDef& row, DType t) { return low_dtype ? autocast_dtype(row.autocast, t) : t; }

}  // namespace heddle
