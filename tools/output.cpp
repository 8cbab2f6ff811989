#include "tools/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/cli.h"

namespace heddle::tools {
namespace {

int first_error = 0;  // of print_out()
std::atomic<bool> failure_begun = false, failure_said = false, process_ends = false;

}  // namespace

// Opened the wrong way round: what uses such a stream fails with EBADF, as it would on a closed one.
void occupy_standard_streams() {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (::fcntl(number, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void say_failure(bool ending, void (*print)(const char* kind, const char* text), const char* kind, const char* text) noexcept {
  if (ending) process_ends = true;
  const bool first = !failure_begun.exchange(true);
  if (first || (!ending && !process_ends)) {  // commands that run one after the other in a test fail each for itself
    print(kind, text);
    failure_said = true;
  }
  for (int i = 0; ending && !failure_said && i < 200; ++i) ::usleep(1000);
}

void print_out(std::string_view text) noexcept {
  errno = 0;
  const bool shown = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!shown && first_error == 0) first_error = errno;
}

int finish_output(int code) noexcept {
  print_out("");
  if (std::ferror(stdout) == 0 && first_error == 0) return code;
  // A failure has its own line, and its own code.
  if (code != 0 && code < exit_signalled) return code;
  std::fprintf(stderr, "heddle: standard output: cannot write to it: %s\n", first_error == 0 ? "its end is missing" : std::strerror(first_error));
  return code == 0 ? exit_internal_error : code;
}

}  // namespace heddle::tools
