// The rows of kernels that users define (core/graph/user_kernel.h). Internal to core and autograd.
//
// Purpose: a user's kernel is an OpDef like every other, but not in the table: what asks the table for a row asks as_user() first. An elementwise kernel has a row for each output, which
// share their text: the emitter computes them together. A body has one row; the result of one with several outputs is flat, one after the other, and users see slices of it.
//   elementwise   kind elementwise   attrs -        inputs of one shape
//   body          kind body          ints = {bits of each constant of the file; where there are several outputs, the first element of each}; inputs as they were given
// Invariants: definitions are immutable and never freed. Rows of equal name, text and signature have one `planned` row, which is what plans and keys know.
// Thread safety: immutable.
#pragma once

#include <string>
#include <vector>

#include "core/graph/op.h"
#include "core/graph/user_kernel.h"
#include "core/kernel/kernel_file.h"
#include "core/kernel/user_text.h"

namespace heddle {

struct UserRow final : OpDef {
  const UserDefinition* definition = nullptr;
  size_t output = 0;
  const OpDef* planned = nullptr;
};

struct UserDefinition {
  std::string name;
  std::vector<UserRow> rows;
  UserRule vjp, jvp;

  // elementwise
  UserElementwise element;
  UserText text;
  // body
  UserBody body;
  KernelFile file;
  bool is_body() const { return !file.buffers.empty(); }
};

inline constexpr char user_row_doc[] = "defined by the user";
// The row of a user's kernel; null for others.
inline const UserRow* as_user(const OpDef& op) { return op.doc.data() == user_row_doc ? static_cast<const UserRow*>(&op) : nullptr; }
// What stands for a row in keys and plans.
inline const OpDef* planned_row(const OpDef* op) {
  const UserRow* user = as_user(*op);
  return user == nullptr ? op : user->planned;
}
// The iterations that loops of an elementwise row run for an element; 0 for rows without loops.
inline int loops_of(const OpDef& op) {
  const UserRow* user = as_user(op);
  return user == nullptr ? 0 : user->definition->element.iterations;
}

// All outputs of an elementwise kernel over inputs that have been cast and broadcast; of a body over its inputs.
std::vector<Tensor> record_user(const UserDefinition& definition, const std::vector<NodePtr>& inputs, const Shape& shape);
// Dtype and shape of each output, of inputs of these types. Elementwise: inputs are cast and broadcast.
std::vector<TensorType> user_outputs(const UserDefinition& definition, std::span<const TensorType> inputs);
// The parts of a body's flat result.
std::vector<Tensor> split_flat(const Tensor& flat, std::span<const TensorType> parts);

}  // namespace heddle
