#include "tools/launched.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/terminal.h"
#include "heddle/core/base/system/threads.h"

namespace heddle::tools {
namespace {

constexpr double look_seconds = 0.1;

int number_in(const char* name, int otherwise) {
  return parse_number<int>(os::variable(name).value_or("")).value_or(otherwise);
}

}  // namespace

bool is_launched() { return os::variable(launched_variable).has_value(); }

std::string launched_device(int rank) {
  const std::string list = os::variable(launched_variable).value_or("");
  if (list.empty()) return {};
  size_t from = 0;
  for (int before = 0; before < rank; ++before) {
    from = list.find(',', from);
    if (from++ == std::string::npos)
      throw ValueError(
          fmt::format("[launch] {} is '{}', which names no device for rank {}", launched_variable, list, rank));
  }
  return list.substr(from, list.find(',', from) - from);
}

void tell_launcher(const char* what) {
  if (is_launched()) print_error("{}{}\n", launcher_line, what);
}

// PoCL before and since its version 4, and lavapipe, would start as many threads as the machine has processors.
void keep_to_own_processors() {
  const int ranks = number_in("OMPI_COMM_WORLD_LOCAL_SIZE", 1), place = number_in("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  if (ranks < 2 || place < 0 || place >= ranks) return;
  const std::string processors = std::to_string(os::keep_to_share_of_processors(place, ranks));
  for (const char* name : {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT", "LP_NUM_THREADS"}) {
    if (!os::variable(name)) os::set_variable(name, processors);
  }
}

LauncherWatch::LauncherWatch(void (*asked)()) {
  thread_ = std::thread([this, asked] {
    while (!over_) {
      const os::Input got = os::read_input(look_seconds);
      if (got != os::Input::nothing && !over_) asked();
      if (got == os::Input::end) return;
    }
  });
}

LauncherWatch::~LauncherWatch() {
  over_ = true;
  thread_.join();
}

}  // namespace heddle::tools
