#include "tools/process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "tools/cli.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

[[noreturn]] void end_without_memory() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    end_process("out of memory: ", "the host has none left for this", exit_out_of_memory);
  } catch (...) {
  }
  constexpr std::string_view line = "heddle: internal error: the process cannot go on (std::terminate)\n";
  [[maybe_unused]] const ssize_t wrote = ::write(STDERR_FILENO, line.data(), line.size());
  std::abort();
}

}  // namespace

int run_process(int argc, char** argv) {
  occupy_standard_streams();
  std::set_terminate(end_without_memory);
  return finish_output(run_command(argc, argv));
}

}  // namespace heddle::tools
