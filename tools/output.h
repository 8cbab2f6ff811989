// What the program prints on standard output, and whether it got there.
//
// Invariants: a write that fails ends no training run: it is remembered, and finish_output() turns it into one line on
// stderr and exit code 1. Thread safety: say_failure() and end_process() are for any thread; the others for one.
#pragma once

#include <string_view>

namespace heddle::tools {

// Shown at once, whatever stands before it; never throws.
void print_out(std::string_view text) noexcept;

// "heddle: KINDTEXT" on standard error, also without memory for another text.
void say_failure(const char* kind, const char* text) noexcept;
// The same of a thread in which nothing can go on, and the end of the process. One line says why: where another thread
// has said it, or says it now, this one is silent.
[[noreturn]] void end_process(const char* kind, const char* text, int code) noexcept;

// The exit code of a program that would end with `code`: 1 instead of 0 when some of its output was lost.
int finish_output(int code) noexcept;

}  // namespace heddle::tools
