// The rows of kernels that users define (core/functions/user/user_kernel.h). Internal to core and autograd.
//
// Purpose: a user's kernel is an OpDef like every other, but not in the table: what asks the table for a row asks
// as_user() first. What stands behind a row is its definition (core/functions/user/user_definition.h). Invariants: rows
// are immutable and never freed. Rows of equal name, text and signature have one `planned` row, which is what plans and
// keys know. Thread safety: immutable.
#pragma once

#include <cstddef>

#include "heddle/core/op/op.h"

namespace heddle {

struct UserDefinition;

struct UserRow final : OpDef {
  const UserDefinition* definition = nullptr;
  size_t output = 0;
  const OpDef* planned = nullptr;
};

inline constexpr char user_row_doc[] = "defined by the user";
// The row of a user's kernel; null for others.
inline const UserRow* as_user(const OpDef& op) {
  return op.doc.data() == user_row_doc ? static_cast<const UserRow*>(&op) : nullptr;
}
// What stands for a row in keys and plans.
inline const OpDef* planned_row(const OpDef* op) {
  const UserRow* user = as_user(*op);
  return user == nullptr ? op : user->planned;
}

}  // namespace heddle
