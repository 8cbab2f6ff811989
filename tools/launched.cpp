#include "tools/launched.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"
#include "heddle/core/base/system/terminal.h"
#include "heddle/core/base/system/threads.h"

namespace heddle::tools {
namespace {

constexpr double look_seconds = 0.1;

int number_in(const char* name, int otherwise) {
  return parse_number<int>(os::variable(name).value_or("")).value_or(otherwise);
}

os::Input no_input() {
  std::this_thread::sleep_for(std::chrono::duration<double>(look_seconds));
  return os::Input::nothing;
}

// Its number, where it is on this host.
std::optional<int> launcher_here() {
  const std::string name = os::variable(launcher_variable).value_or("");
  const size_t space = name.rfind(' ');
  if (space == std::string::npos || name.substr(0, space) != os::host_name()) return std::nullopt;
  return parse_number<int>(name.substr(space + 1));
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

std::string name_of_launcher() { return fmt::format("{} {}", os::host_name(), os::process_id()); }

LauncherWatch::LauncherWatch(void (*asked)(), bool hears) {
  thread_ = std::thread([this, asked, hears, launcher = launcher_here()] {
    while (!over_) {
      const os::Input got = hears ? os::read_input(look_seconds) : no_input();
      const bool gone = got == os::Input::end || (launcher && !os::is_running(*launcher));
      if ((gone || got != os::Input::nothing) && !over_) asked();
      if (gone) return;
    }
  });
}

LauncherWatch::~LauncherWatch() {
  over_ = true;
  thread_.join();
}

}  // namespace heddle::tools
