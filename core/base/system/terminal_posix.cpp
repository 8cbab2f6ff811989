#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "heddle/core/base/system/terminal.h"

namespace heddle::os {

bool is_terminal(Stream stream) { return ::isatty(static_cast<int>(stream)) != 0; }

int terminal_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

// Opened the wrong way round: what uses such a stream fails with EBADF, as it would on a closed one.
void occupy_standard_streams() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (::fcntl(number, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

Input read_input(double seconds) {
  pollfd waits{STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&waits, 1, static_cast<int>(std::ceil(std::clamp(seconds, 0.0, 3600.0) * 1000)));
  if (ready <= 0) return Input::nothing;
  char byte = 0;
  const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
  if (got == 1) return Input::byte;
  return got < 0 && (errno == EINTR || errno == EAGAIN) ? Input::nothing : Input::end;
}

void write_error(std::string_view text) noexcept {
  [[maybe_unused]] const ssize_t wrote = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace heddle::os
