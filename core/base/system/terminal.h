// Standard streams and the terminal behind them.
//
// Thread safety: may be called from any thread; occupy_standard_streams() before there are others.
#pragma once

#include <string_view>

namespace heddle::os {

enum class Stream { input = 0, output = 1, error = 2 };

bool is_terminal(Stream stream);
// Of standard output; 80 where it is none.
int terminal_columns();

// Standard input, past the library's buffers: a byte, which is taken, or its end, or neither within so many seconds.
enum class Input { nothing, byte, end };
Input read_input(double seconds);

// Before anything is opened: a closed stream stays useless, but its number is taken, so that no file (of a driver, say)
// gets what is printed. Where the system needs it, streams and terminal are told that texts are UTF-8 and bytes stay as
// they are.
void occupy_standard_streams();

// Without the library's buffers, as far as it goes: for a process that cannot go on.
void write_error(std::string_view text) noexcept;

}  // namespace heddle::os
