#include "tools/process.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/terminal.h"
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
  os::write_error("heddle: internal error: the process cannot go on (std::terminate)\n");
  std::abort();
}

}  // namespace

int run_process(int argc, char** argv) {
  os::occupy_standard_streams();
  std::set_terminate(end_without_memory);
  std::vector<std::string> words = os::arguments(argc, argv);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return finish_output(run_command(static_cast<int>(words.size()), pointers.data()));
}

}  // namespace heddle::tools
