#include "tools/output.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "heddle/core/base/print_error.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

int first_error = 0;  // of print_out()
std::timed_mutex failing;
bool failed = false;

}  // namespace

void say_failure(const char* kind, const char* text) noexcept {
  const std::lock_guard lock(failing);
  failed = true;
  try {
    print_error("heddle: {}{}\n", kind, one_line(text));
  } catch (...) {
    std::fprintf(stderr, "heddle: %s%s\n", kind, text);
  }
}

// The lock is kept: nobody says anything after that. Standard error may be stuck, hence no wait without end.
void end_process(const char* kind, const char* text, int code) noexcept {
  if (failing.try_lock_for(std::chrono::milliseconds(200)) && !failed)
    std::fprintf(stderr, "heddle: %s%s\n", kind, text);
  std::_Exit(code);
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
  std::fprintf(stderr, "heddle: standard output: cannot write to it: %s\n",
               first_error == 0 ? "its end is missing" : std::strerror(first_error));
  return code == 0 ? exit_internal_error : code;
}

}  // namespace heddle::tools
