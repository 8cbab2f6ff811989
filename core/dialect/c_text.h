// What C99 needs around a kernel's text: work items become loops.
//
// Purpose: a group of one lane is a function; lanes that never wait for each other are a loop around it; lanes that do
// have no form in C. Invariants: pure. Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/contract/kernel_source.h"

namespace heddle {

// An element of a buffer: "signed char", "float"; f16 and bf16 are their bits, bool a byte.
std::string_view c_type(DType dtype);

// Why a kernel cannot be written as C: "its 64 lanes wait for each other"; "" when it can.
std::string c_refusal(const KernelSource& source);

struct CArgument {
  std::string type, name;
};
// Helpers, a function of one lane, and heddle_kernel(), which calls it for every lane of every group. ValueError where
// c_refusal() says something.
std::string c_functions(const KernelSource& source, const std::vector<CArgument>& arguments);

// Of a text without its lines "#line ...": a reader of the written file counts its own.
std::string without_line_marks(std::string_view text);

}  // namespace heddle
