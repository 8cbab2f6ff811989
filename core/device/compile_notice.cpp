#include "heddle/core/device/compile_notice.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/base/system/terminal.h"

namespace heddle {
namespace {

struct State {
  std::mutex mutex;
  double patience = 2;  // seconds
  double spent = 0;     // of notices that have ended
  size_t wanted = 0, compiled = 0;
  bool said = false;
};

State& state() {
  static State& all = *new State;
  return all;
}

bool quiet() {
  const char* asked = std::getenv("HEDDLE_QUIET");
  return asked && *asked && std::string_view(asked) != "0";
}

void say(const std::string& device, size_t compiled, size_t wanted) {
  const std::string folder = cache_dir();
  const std::string kept = folder.empty() ? "Heddle keeps none (HEDDLE_CACHE_DIR is empty)"
                                          : fmt::format("they are kept in {} and the driver's own cache", folder);
  // A bar of progress may stand in this line of a terminal.
  const char* fresh_line = os::is_terminal(os::Stream::error) ? "\r\x1b[K" : "";
  print_error("{}heddle: {} compiles kernels for the first time, {} of {} so far; {} (HEDDLE_QUIET=1 hides this)\n",
              fresh_line, device, compiled, wanted, kept);
}

}  // namespace

CompileNotice::CompileNotice(const std::string& device, size_t count)
    : device_(device), start_(std::chrono::steady_clock::now()) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.wanted += count;
  if (all.said || quiet()) return;
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {  // the system has no more threads: nothing is said
  }
}

CompileNotice::~CompileNotice() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.spent += seconds_since(start_);
}

void CompileNotice::done(size_t count) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.compiled += count;
}

void CompileNotice::reset(double seconds) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.patience = seconds;
  all.spent = 0;
  all.wanted = all.compiled = 0;
  all.said = false;
}

void CompileNotice::watch() {
  State& all = state();
  double left = 0;
  {
    const std::lock_guard lock(all.mutex);
    left = all.patience - all.spent;
  }
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, std::chrono::duration<double>(left), [this] { return over_; })) return;
  const std::lock_guard state_lock(all.mutex);
  if (std::exchange(all.said, true)) return;
  say(device_, all.compiled, all.wanted);
}

}  // namespace heddle
