#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <cstdlib>

#include "heddle/core/base/system/terminal.h"
#include "heddle/core/base/system/windows_text.h"

namespace heddle::os {
namespace {

// In every program of this library: files that the standard library opens hold the bytes that are written.
const bool prepared = [] {
  _fmode = _O_BINARY;
  return true;
}();

HANDLE handle_of(Stream stream) {
  return GetStdHandle(stream == Stream::input    ? STD_INPUT_HANDLE
                      : stream == Stream::output ? STD_OUTPUT_HANDLE
                                                 : STD_ERROR_HANDLE);
}

}  // namespace

bool is_terminal(Stream stream) {
  DWORD mode = 0;
  return GetConsoleMode(handle_of(stream), &mode) != 0;
}

int terminal_columns() {
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (!GetConsoleScreenBufferInfo(handle_of(Stream::output), &info)) return 80;
  return info.srWindow.Right - info.srWindow.Left + 1;
}

void occupy_standard_streams() {
  for (int number = 0; number < 3; ++number) {
    if (_get_osfhandle(number) == -1) _open("NUL", number == 0 ? _O_WRONLY : _O_RDONLY);
    _setmode(number, _O_BINARY);
  }
  SetConsoleOutputCP(CP_UTF8);
  SetConsoleCP(CP_UTF8);
  for (const Stream stream : {Stream::output, Stream::error}) {
    DWORD mode = 0;
    if (GetConsoleMode(handle_of(stream), &mode))
      SetConsoleMode(handle_of(stream), mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
  }
}

// Waiting for a pipe is for nothing but asking again.
Input read_input(double seconds) {
  constexpr DWORD pause = 20;
  const HANDLE input = handle_of(Stream::input);
  const ULONGLONG end = GetTickCount64() + static_cast<ULONGLONG>(std::clamp(seconds, 0.0, 3600.0) * 1000);
  for (;;) {
    DWORD there = 0;
    if (!PeekNamedPipe(input, nullptr, 0, nullptr, &there, nullptr)) return Input::end;
    if (there > 0) {
      char byte = 0;
      DWORD got = 0;
      return ReadFile(input, &byte, 1, &got, nullptr) && got == 1 ? Input::byte : Input::end;
    }
    if (GetTickCount64() >= end) return Input::nothing;
    Sleep(pause);
  }
}

void write_error(std::string_view text) noexcept {
  DWORD wrote = 0;
  WriteFile(handle_of(Stream::error), text.data(), static_cast<DWORD>(text.size()), &wrote, nullptr);
}

}  // namespace heddle::os
