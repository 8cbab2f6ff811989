#include "tools/certify/subprogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/system/files.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"

namespace heddle::tools::certify {
namespace {

constexpr int ran_too_long = 124;

// Until its output has ended; false when it had not after the time, and is dead now.
bool read_all(os::ChildProcess& child, double seconds, std::string& output) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left <= 0) {
      child.kill();
      return false;
    }
    if (!child.read(output, nullptr, left)) return true;
  }
}

}  // namespace

Finished run_program(const std::vector<std::string>& words, const std::string& folder,
                     const std::vector<std::pair<std::string, std::string>>& variables, double seconds) try {
  os::ChildOptions options;
  options.error = os::ChildStream::output;
  options.folder = folder;
  options.variables = variables;
  options.cpu_seconds = seconds;
  os::ChildProcess child(words.at(0), words, options);
  Finished finished;
  // Beside other work a program may wait ten times as long as it computes.
  const bool ended = read_all(child, 10 * seconds, finished.output);
  const os::ChildEnd& end = child.wait();
  finished.exit_code = !ended ? ran_too_long : end.signal != 0 ? 128 + end.signal : end.exit_code;
  return finished;
} catch (const std::system_error& error) {
  throw DeviceError(fmt::format("[certify] cannot start {}: {}", words.at(0), error.code().message()));
}

ScratchFolder::ScratchFolder()
    : path_(os::make_scratch_folder((fs::temp_directory_path() / "heddle-certify").string())) {
  if (path_.empty())
    throw IoError(fmt::format("[certify] cannot make a folder in {}: {}", fs::temp_directory_path().string(),
                              std::strerror(errno)));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void ScratchFolder::clear() const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored)) fs::remove_all(entry.path(), ignored);
}

}  // namespace heddle::tools::certify
