// What a driver's compiler said about a program, by the files that its text came from.
//
// Purpose: a program is put together of many files, each behind a `#line` directive. A compiler whose messages ignore
// them (Oclgrind's clang) names lines of the whole text, which nobody has. Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace heddle::opencl {

// `log` with each place "NAME:LINE:COLUMN:" at the beginning of a line as "FILE:LINE:COLUMN:" of the directive that
// holds there in `program`. A place whose NAME a directive of the program names, or whose line it does not have, stays.
std::string by_line_directives(std::string_view log, std::string_view program);

}  // namespace heddle::opencl
