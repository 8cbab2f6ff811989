// What the program prints on standard output, and whether it got there.
//
// Invariants: a write that fails ends no training run: it is remembered, and finish_output() turns it into one line on stderr and exit code 1. Thread safety: none.
#pragma once

#include <string_view>

namespace heddle::tools {

// Before anything is opened: standard streams that are closed stay useless, but their numbers are taken, so that no file (of a driver, say) gets what is printed.
void occupy_standard_streams();

// Shown at once, whatever stands before it; never throws.
void print_out(std::string_view text) noexcept;

// One line says why the process fails, whichever thread it is that cannot go on: say_failure() calls `print` unless another thread ends the process and has said
// it. `ending`: the caller ends the process after that; where another has begun to say it, that one is waited for, up to 0.2 s. `print` never throws.
void say_failure(bool ending, void (*print)(const char* kind, const char* text), const char* kind, const char* text) noexcept;

// The exit code of a program that would end with `code`: 1 instead of 0 when some of its output was lost.
int finish_output(int code) noexcept;

}  // namespace heddle::tools
