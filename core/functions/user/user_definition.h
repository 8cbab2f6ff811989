// What a user's kernel (core/functions/user/user_kernel.h) is to the library: its rows, its text and its rules.
// Internal to core and autograd.
//
// Purpose: calls, derivatives, the reference and lowering read a definition through the row (core/op/user_row.h).
// An elementwise kernel has a row for each output, which share their text: the emitter computes them together. A body
// has one row; the result of one with several outputs is flat, one after the other, and users see slices of it.
//   elementwise   kind elementwise, attrs -; inputs of one shape
//   body          kind body, ints = {bits of each constant of the file; where there are several outputs, the first
//                 element of each}; inputs as they were given
// Invariants: definitions are immutable and never freed. Thread safety: immutable; recording is per thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/dialect/user_text.h"
#include "heddle/core/functions/user/user_types.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/op/user_row.h"

namespace heddle {

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

// The iterations that loops of an elementwise row run for an element; 0 for rows without loops.
inline int loops_of(const OpDef& op) {
  const UserRow* user = as_user(op);
  return user == nullptr ? 0 : user->definition->element.iterations;
}

// All outputs of an elementwise kernel over inputs that have been cast and broadcast; of a body over its inputs.
std::vector<Tensor> record_user(const UserDefinition& definition, const std::vector<NodePtr>& inputs,
                                const Shape& shape);
// Dtype and shape of each output, of inputs of these types. Elementwise: inputs are cast and broadcast.
std::vector<TensorType> user_outputs(const UserDefinition& definition, std::span<const TensorType> inputs);
// The parts of a body's flat result.
std::vector<Tensor> split_flat(const Tensor& flat, std::span<const TensorType> parts);

// ---- making and calling one

void check_user_name(const std::string& name);
// ValueError on reference:0 for a kernel without a host function.
void check_user_host(DeviceContext& device, const UserDefinition& definition);
// Compiles a kernel that holds the user's text, once per device; UserKernelError with the line.
void compile_user_text(DeviceContext& device, const UserDefinition& definition, const KernelSource& source);
// Gives the definition its rows and keeps it for the life of the process.
const UserDefinition* publish_user_kernel(std::unique_ptr<UserDefinition> made, const OpDef& row, size_t outputs,
                                          const std::string& contents);

}  // namespace heddle
